"""An object that says it is a number."""


class Evil:
    __class__ = int

    def __repr__(self):
        return "0"


def trigger():
    return {"reached": Evil()}
