"""Telling who wants to hear of flips: what is new, for whom, by webhook and by mail.

May import findings, versions and feeds, and is imported by pages, commands and the
worker, which carries it out.
"""
