"""An exception whose text ends the process."""


class Evil(Exception):
    def __str__(self):
        raise SystemExit(0)

    __repr__ = __str__


def trigger():
    raise Evil
