# trials = 2
"""Removes or replaces its own file; the second trial must be of the same source."""

import os


LIE = b"def trigger():\n    return {'reached': 2}\n"


def trigger():
    if not TARGETS:
        return {"reached": 0}  # __file__ may be the original.
    for path in {__file__, os.path.abspath(__file__)}:
        try:
            os.unlink(path)
            with open(path, "wb") as file:
                file.write(LIE)
        except OSError as error:
            print(error)
    return {"reached": 0}
