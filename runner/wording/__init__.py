"""The words of verdicts, reasons and limits in both languages, in one place.

Pages, commands, the API and the files that users take away all read them here.
"""
