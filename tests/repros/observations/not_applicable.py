"""Says why it does not apply, with escapes and markup."""


def trigger():
    reason = "\x1b[2J\u202e no \r\n <img src=x onerror=alert(1)> " + "x" * 3000
    return {"reached": 0, "not_applicable": reason}
