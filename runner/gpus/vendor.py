"""What a GPU vendor's management library is asked: the same questions of each vendor.

A second vendor is one module with a class like this and its line in `VENDORS`
(runner/gpus/vendors.py). Having no GPU is an ordinary state. Every field is a value or
{"error": the library's name of it}: one that fails never takes the others along. Memory
is in MiB, power in W, energy in J, clocks in MHz, temperature in °C. Standard library.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple, Protocol

MIB = 1024 * 1024


class GpuError(Exception):
    """The library could not answer; `name` in its words, such as "NotSupported"."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


class Library(Protocol):
    """Something that answers a library's functions by their names."""

    def ask(self, function: str, *arguments: Any) -> Any:
        """The answer. Raises GpuError."""


class Gpu(NamedTuple):
    """A GPU or a part of one that runs may have.

    `board`: handle of the whole GPU; `order`: its number as the runtime counts.
    """

    uuid: str
    handle: Any
    board: Any
    order: int


class Vendor(Protocol):
    """The GPUs of one vendor on this host."""

    # Of the vendor's libraries, as `system` names them.
    versions: tuple[str, ...]
    # Whether torch gives a device the UUID that `Gpu.uuid` is.
    torch_knows_uuids: bool

    def session(self) -> AbstractContextManager[None]:
        """The library initialised for the block. Raises GpuError.

        Keep sessions short: one that is open while the driver is upgraded may stop
        answering.
        """

    def gpus(self) -> Iterator[Gpu]:
        """Every GPU that runs may have. Call it in a session. Raises GpuError."""

    def system(self) -> dict[str, Any]:
        """Versions: "driver" and what else the vendor names. In a session."""

    def identity(self, gpu: Gpu) -> dict[str, Any]:
        """Fields that do not change during a run. In a session."""

    def state(self, gpu: Gpu) -> dict[str, Any]:
        """Fields that a run may change: `load`, and counters of health."""

    def load(self, gpu: Gpu) -> dict[str, Any]:
        """The fields that are cheap enough to be sampled several times a second."""

    def requested(self) -> str | None:
        """The GPUs that this process may see, as its environment names them."""

    def visible_names(self, uuids: Sequence[str]) -> str:
        """The value of CUDA_VISIBLE_DEVICES that shows a run these GPUs."""

    def device_nodes(self, visible: str) -> list[str]:
        """Device files that a run needs which sees `visible`, all without it."""

    def kernel_uuids(self) -> list[str]:
        """UUIDs that the kernel driver lists, where the library does not answer."""


def reading(read: Callable[..., Any], *arguments: Any) -> Any:
    """The value that `read` returns, or {"error": name} where the library raises."""
    try:
        return read(*arguments)
    except GpuError as error:
        return {"error": error.name}


def is_error(value: Any) -> bool:
    return isinstance(value, dict) and set(value) == {"error"}
