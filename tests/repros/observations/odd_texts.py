"""Texts with lone surrogates, NUL, escapes and directions."""


def trigger():
    text = "\ud800\x00\x1b]52;c;cm0gLXJm\x07\u202e\u2028\u200b</pre><script>alert(1)"
    return {"reached": 0, "ran": text, "mode": text * 20, "device": text}
