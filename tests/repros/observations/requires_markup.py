"""A requirement that is answered by escapes and markup."""


def requires():
    return "\x1b[31m <script>\n\n\u202e" + "x" * 3000
