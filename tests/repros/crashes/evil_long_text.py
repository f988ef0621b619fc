# memory_mib = 2048
"""An exception of 64 MiB, with a name of controls."""


Evil = type("\x1b[31m\u202e</pre><script>", (Exception,), {})


def trigger():
    raise Evil("\x1b]0;title\x07 <b>\ud800" * 4000000)
