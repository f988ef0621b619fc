"""`doctor.py --machine`: does this machine compute correctly, each time?

The answer of each check is known exactly: its numbers are whole, and so small that no
order of adding rounds them, in any of its dtypes. So one wrong bit is a fault of the
hardware, its driver or a library, never of a model. `python known_answers.py SECONDS`
prints a line of JSON for each check of each device; needs torch 1.13 or newer.
"""

import itertools
import json
import sys
import time
from typing import Any, Callable, Dict, Iterator, List, Tuple

import torch

Json = Dict[str, Any]
# Gives (what came out, what should), both on the CPU.
Check = Callable[[], Tuple[Any, Any]]

SIZE = {"cpu": 256, "cuda": 2048}
ADDED = 64  # products in a sum: at most 64, which bfloat16 still holds exactly
COPIED = {"cpu": 1 << 20, "cuda": 1 << 26}  # bytes
PEAK = 4096.0  # of a score: exp of any other minus this is 0
ROUNDS = 5  # of each check, however little time there is
DTYPES = ("float32", "float16", "bfloat16", "float64")


def whole(rows: int, columns: int, most: int, seed: int) -> Any:
    """A matrix of whole numbers from -most to most, on the CPU."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(-most, most + 1, (rows, columns), generator=generator)


def matmul(device: str, dtype: Any) -> Check:
    size = SIZE[kind(device)]
    left, right = whole(size, ADDED, 1, 1), whole(ADDED, size, 1, 2)
    expected = left @ right
    a, b = left.to(device, dtype), right.to(device, dtype)
    return lambda: (torch.matmul(a, b).cpu().long(), expected)


def attention(device: str, dtype: Any) -> Check:
    """Each query has one key, so its answer is that key's value."""
    rows = SIZE[kind(device)]
    chosen = torch.arange(rows) * 7 % ADDED
    value = whole(ADDED, ADDED, 8, 3)
    eye = torch.eye(ADDED)
    query = (eye[chosen] * PEAK).to(device, dtype)
    key, values = eye.to(device, dtype), value.to(device, dtype)

    def run() -> Tuple[Any, Any]:
        weights = torch.softmax(torch.matmul(query, key.T), -1)
        return torch.matmul(weights, values).cpu().long(), value[chosen]

    return run


def gradient(device: str, dtype: Any) -> Check:
    """Of the sum of a product: sums of whole rows and columns."""
    size = SIZE[kind(device)]
    left, right = whole(size, ADDED, 1, 4), whole(ADDED, ADDED, 1, 5)
    expected = right.sum(1).expand(size, ADDED)
    weight = right.to(device, dtype)

    def run() -> Tuple[Any, Any]:
        leaf = left.to(device, dtype).requires_grad_()
        torch.matmul(leaf, weight).sum().backward()
        return leaf.grad.cpu().long(), expected

    return run


def reduction(device: str, dtype: Any) -> Check:
    """Sums, the largest and where it stands, of rows of whole numbers."""
    size = SIZE[kind(device)]
    numbers = whole(size, ADDED, 1, 6)
    numbers[:, 17] = 2
    expected = torch.stack([numbers.sum(1), numbers.max(1)[0], numbers.argmax(1)])
    values = numbers.to(device, dtype)

    def run() -> Tuple[Any, Any]:
        rows = [values.sum(1), values.max(1)[0], values.argmax(1)]
        return torch.stack([row.cpu().long() for row in rows]), expected

    return run


def copies(device: str, other: str) -> Check:
    """Bytes that go to one device, to the other, back, and home again."""
    generator = torch.Generator().manual_seed(7)
    many = COPIED[kind(device)]
    sent = torch.randint(0, 256, (many,), generator=generator, dtype=torch.uint8)

    def run() -> Tuple[Any, Any]:
        there = sent.to(device).clone()
        back = there.to(other).clone().to(device).clone()
        return back.cpu(), sent

    return run


CHECKS: Dict[str, Callable[[str, Any], Check]] = {
    "matmul": matmul,
    "attention": attention,
    "gradient": gradient,
    "reduction": reduction,
}


def kind(device: str) -> str:
    return device.partition(":")[0]


def devices() -> List[str]:
    found = range(torch.cuda.device_count()) if torch.cuda.is_available() else ()
    return ["cpu", *("cuda:%d" % number for number in found)]


def planned() -> Iterator[Tuple[Json, Check]]:
    """Every check of every device; what torch has not for a device is left out."""
    names = devices()
    for device in names:
        for name, dtype in itertools.product(CHECKS, DTYPES):
            what = {"device": device, "check": name, "dtype": dtype}
            try:
                check = CHECKS[name](device, getattr(torch, dtype))
                check()
            except RuntimeError as error:
                if "not implemented" not in str(error):
                    raise
                continue
            yield what, check
    for one, other in itertools.product(names, names):
        if one != "cpu" or len(names) == 1:
            what = {"device": one, "check": "copy", "dtype": other}
            yield what, copies(one, other)


def difference(got: Any, expected: Any) -> Json:
    """Where the two differ first, and how often; empty where they are equal."""
    if torch.equal(got, expected):
        return {}
    wrong = (got != expected).nonzero()
    first = wrong[0].tolist()
    return {
        "wrong": len(wrong),
        "of": got.numel(),
        "at": first,
        "got": int(got[tuple(first)]),
        "expected": int(expected[tuple(first)]),
    }


def examine(seconds: float) -> List[Json]:
    """Every check in turn, again and again for so long, and at least ROUNDS times."""
    end = time.monotonic() + seconds
    rows = [
        (dict(what, repeated=0, faults=0, first={}), check) for what, check in planned()
    ]
    rounds = 0
    while rounds < ROUNDS or time.monotonic() < end:
        for row, check in rows:
            found = difference(*check())
            row["repeated"] += 1
            row["faults"] += bool(found)
            row["first"] = row["first"] or found
        rounds += 1
    return [row for row, _check in rows]


def main(seconds: float) -> int:
    rows = examine(seconds)
    for row in rows:
        sys.stdout.write(json.dumps(row) + "\n")
    return 1 if any(row["faults"] for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main(float(sys.argv[1])))
