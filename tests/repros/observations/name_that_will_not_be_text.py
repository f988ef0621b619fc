"""A name whose text is an exit."""


class Name:
    def __str__(self):
        raise SystemExit(0)


def trigger():
    return {"reached": 0, Name(): 1}
