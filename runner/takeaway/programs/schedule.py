"""What a kit runs next: the most telling first, as far as time and GPUs go.

`manifest.json` says of each repro what a run of it would tell ("unseen", "decides"),
what it needs ("gpus", "checks", "compiles") and how long it took elsewhere ("usual_s").
"""

import threading
import time
from typing import Any, Callable, Dict, List, Optional, Tuple

Json = Dict[str, Any]
# Seconds that compiling and a GPU add to a check, roughly: 5 to 6, and 1.5, beside an
# H200. Only a guess, where nothing ever ran; the pace of the node corrects it.
COMPILE_S, GPU_S = 6.0, 1.5


def expected_s(repro: Json, start_s: float) -> float:
    """About how long a repro takes where starting torch takes `start_s` seconds.

    Every check starts torch anew; what ran elsewhere says how much comes on top.
    """
    gpu_s = GPU_S if repro["device"] == "cuda" else 0.0
    starts_s: float = repro["checks"] * (start_s + gpu_s)
    if repro["usual_s"] is not None:
        return max(float(repro["usual_s"]), starts_s)
    compile_s = COMPILE_S * int(repro["checks"]) if repro["compiles"] else 0.0
    return starts_s + compile_s


def order(repro: Json) -> Tuple[Any, ...]:
    """For `sorted`: what has no result on its device anywhere, then what decides most.

    GPUs come first: they are what the node was taken for.
    """
    return (
        repro["device"] == "cpu",
        not repro["unseen"],
        -repro["decides"],
        repro["record"],
        repro["name"],
    )


def name_of(repro: Json) -> Tuple[str, str]:
    return repro["record"], repro["name"]


class Schedule:
    """Gives repros out to several jobs.

    `expected`: seconds by (record, name); `left`: how many seconds there are still;
    `gpus`: how many this node has. A repro that would not end in time gives way to the
    next one that would; where none would, the shortest is tried.
    """

    def __init__(
        self,
        repros: List[Json],
        expected: Dict[Tuple[str, str], float],
        left: Callable[[], float],
        gpus: int,
    ) -> None:
        self.waiting = sorted(repros, key=order)
        self.expected = expected
        self.left = left
        self.gpus = self.free = gpus
        self.changed = threading.Condition()
        self.began: Dict[Tuple[str, str], float] = {}
        self.spent_s = self.planned_s = 0.0

    def seconds(self, repro: Json) -> float:
        """As expected, at the pace that this node has shown so far."""
        pace = self.spent_s / self.planned_s if self.planned_s else 1.0
        return self.expected[name_of(repro)] * pace

    def held(self, repro: Json) -> int:
        """GPUs that a repro holds; where there are fewer, it is told so by its run."""
        return int(min(repro["gpus"], self.gpus))

    def take(self) -> Optional[Json]:
        """The next one; waits while all that are left want a GPU that is in use."""
        with self.changed:
            while self.waiting:
                found = self.next()
                if found is not None:
                    self.waiting.remove(found)
                    self.free -= self.held(found)
                    self.began[name_of(found)] = time.monotonic()
                    return found
                self.changed.wait()
        return None

    def next(self) -> Optional[Json]:
        startable = [repro for repro in self.waiting if self.held(repro) <= self.free]
        left_s = self.left()
        in_time = [repro for repro in startable if self.seconds(repro) <= left_s]
        if in_time:
            return in_time[0]
        return min(startable, key=self.seconds, default=None)

    def give_back(self, repro: Json, evidence: Optional[Json]) -> None:
        """What it held is free again. `evidence`: None where nothing came of it."""
        with self.changed:
            self.free += self.held(repro)
            # One that does not apply here ends at its first check: that is no pace.
            if evidence and evidence["hits"] is not None:
                self.spent_s += time.monotonic() - self.began[name_of(repro)]
                self.planned_s += self.expected[name_of(repro)]
            self.changed.notify_all()

    def remaining_s(self, jobs: int) -> float:
        """About how long what waits will take, with so many jobs."""
        with self.changed:
            return sum(map(self.seconds, self.waiting)) / jobs
