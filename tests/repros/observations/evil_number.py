# /// script
# dependencies = ["torch>=1.13"]
# [tool.doesitnan]
# fidelity = "upstream_bug"
# device = "cpu"
# bug = "reached > 0"
# timeout_s = 20
# memory_mib = 1024
# ///
"""A number whose every method lies."""


def control():
    return {"reached": 0}


def detector():
    return {"reached": 1}


class Evil(float):
    def lie(self, *others):
        return True

    __lt__ = __gt__ = __eq__ = __le__ = __ge__ = lie
    __hash__ = float.__hash__

    def __float__(self):
        return 0.0

    def __repr__(self):
        return "0, \"verdict\": \"bug_absent\""

    __str__ = __format__ = __repr__


def trigger():
    return {"reached": Evil(1.0)}
