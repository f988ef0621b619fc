"""Escapes that move the cursor, set titles and clipboards, and turn the text round."""

import os


TEXTS = (
    "\x1b[2J\x1b[H\x1b]0;title\x07\x1b]52;c;cm0gLXJmIC8=\x07\x1bP$q\x1b\\\\",
    "\x9b31m\x85\x84 \u202e\u2066\u200f\u061c\ufeff\u200b\u2028\u2029\x7f\x00",
    "</pre><script>alert(1)</script><img src=x onerror=alert(1)> {{ 7*7 }} {% load %}",
    "[harness] 0 bytes cut here",
    "progress\rprogress\rdone\b\b\v\f",
)


def trigger():
    for text in TEXTS:
        for stream in (1, 2):
            os.write(stream, text.encode() + b"\n")
    return {"reached": 0}
