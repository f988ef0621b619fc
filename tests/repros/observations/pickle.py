"""An object that runs code when it is unpickled, and its pickle."""

import os
import pickle


class Bomb:
    def __reduce__(self):
        return os.system, ("touch /tmp/hostile-pickle",)


def trigger():
    return {"reached": 0, "bomb": Bomb(), "pickled": pickle.dumps(Bomb())}
