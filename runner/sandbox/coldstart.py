"""Cold starts: each check a fresh interpreter in the strongest jail there is here."""

from __future__ import annotations

import contextlib
import functools
import os
import secrets
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from runner import harness
from runner.sandbox import box, cgroups, layout, policy, scratch, uids, view
from runner.sandbox.probes import Capabilities
from runner.sandbox.process import BoxProcess
from runner.sandbox.tiers import Layers, letter

CANNOT_EXECUTE = "cannot execute"  # said by launch.py
# What a tier without namespaces cannot give: it has no sockets.
NEED_NAMESPACES = frozenset({"loader", "loopback"})


class Refused(Exception):
    """The check was not started; the text says why."""


@dataclass(frozen=True)
class ColdStart:
    """A `harness.Start`: starts each check of one repro, cold."""

    interpreter: str
    repro: str
    found: Capabilities
    hidden: Sequence[str] = ()
    gpus: str | None = None
    hold_fds: Sequence[int] = ()
    compile_cache: str = ""
    on_line: Callable[[str, str, str], None] | None = None
    cancelled: Callable[[], bool] | None = None

    def __call__(self, spec: harness.CheckSpec) -> harness.Report:
        def tell(stream: str, text: str) -> None:
            if self.on_line:
                self.on_line(spec.name, stream, text)

        if not os.access(self.interpreter, os.X_OK):
            tell("harness", f"{self.interpreter} is gone")
            return harness.Report(failure="build_missing")
        try:
            with self.started(spec) as process:
                report = harness.watch(
                    process, spec, on_line=tell, cancelled=self.cancelled
                )
        except (Refused, uids.NoUser, box.NotStarted, OSError) as error:
            return refused(tell, str(error))
        if CANNOT_EXECUTE in process.trouble:
            report.failure = "build_missing"
        return report

    @contextmanager
    def started(self, spec: harness.CheckSpec) -> Iterator[BoxProcess]:
        """The check in its jail, waiting for its nonce. Raises as the parts do."""
        if self.found.nothing:
            raise Refused(self.found.nothing)
        source = Path(self.repro).read_bytes()
        needs = needs_of(source)
        layers = self.layers
        lacking = sorted(needs & NEED_NAMESPACES)
        if lacking and letter(layers) == "C":
            raise Refused(
                f"needs {', '.join(lacking)}, which sandbox tier C does not give"
            )
        cache = self.compile_cache if "compiler" in needs else ""
        with ExitStack() as stack:
            uid = stack.enter_context(user_of(layers, cache))
            if cache:
                prepare_cache(cache, uid)
            inside = layers.namespaces is not None
            where = view.SCRATCH
            if not inside:
                where = stack.enter_context(scratch.scratch_folder())
                # Its parent only: the check makes and owns the folder itself.
                where = open_to(where, uid)
            yield self.process(spec, source, where, uid, cache)

    @cached_property
    def layers(self) -> Layers:
        """What holds the checks of this build."""
        return policy.layers_for(self.found.layers, self.interpreter)

    @cached_property
    def entries(self) -> list[view.Entry]:
        """What the checks see, but for a compile cache."""
        return view.build_view(
            layout.layout_of(self.interpreter),
            hidden=self.hidden,
            gpus=self.gpus,
            users=policy.users(),
        )

    def process(
        self,
        spec: harness.CheckSpec,
        source: bytes,
        folder: str,
        uid: int | None,
        cache: str,
    ) -> BoxProcess:
        layers, inside = self.layers, self.layers.namespaces is not None
        entries = [*self.entries, *(view.cache_entries(cache) if cache else ())]
        seen_cache = view.INSIDE_CACHE if cache and inside else cache
        told = policy.check_policy(
            layers,
            scratch=folder,
            entries=entries,
            uid=uid,
            compile_cache=seen_cache,
            gpus=self.gpus,
        )
        told["source"] = f"{folder}/{Path(self.repro).name}"
        token = "" if inside else secrets.token_hex(16)
        extra = {**spec.environment, **({"DOESITNAN_CHILD": token} if token else {})}
        env = policy.environment(
            folder, extra, compile_cache=seen_cache, gpus=self.gpus
        )
        script = view.INSIDE_HARNESS if inside else str(view.HARNESS)
        command = harness.child_command(self.interpreter, script, told["source"], spec)
        group = self.group(spec)
        return launch(told, command, entries, env, source, group, token, self)

    def group(self, spec: harness.CheckSpec) -> cgroups.Group | None:
        if self.found.cgroups is None:
            return None
        return self.found.cgroups.create(spec.memory_mib, policy.PROCESSES)


def launch(
    told: policy.Policy,
    command: list[str],
    entries: list[view.Entry],
    env: dict[str, str],
    source: bytes,
    group: cgroups.Group | None,
    token: str,
    start: ColdStart,
) -> BoxProcess:
    """Start the jail with pipes for the check; a group that was made is removed."""
    (nonce_in, nonce_out), *outputs = [os.pipe() for _ in range(4)]
    channel = outputs[2][1]
    entering = group.entry_fds() if group else []
    theirs = [nonce_in, *(writer for _, writer in outputs), *entering]
    try:
        started = box.start(
            told,
            [*command, "--fd", str(channel)],
            entries,
            env=env,
            stdin=nonce_in,
            stdout=outputs[0][1],
            stderr=outputs[1][1],
            passed=[channel],
            held=start.hold_fds,
            cgroup=entering,
            source=source,
        )
    except BaseException:
        for number in (nonce_out, *(reader for reader, _ in outputs)):
            os.close(number)
        if group:
            group.remove()
        raise
    finally:
        for number in theirs:
            os.close(number)
    stdout_fd, stderr_fd, channel_fd = (reader for reader, _ in outputs)
    return BoxProcess(
        started.control,
        stdout_fd,
        stderr_fd,
        channel_fd,
        functools.partial(release, nonce_out),
        outer=started.process,
        group=group,
        token=token,
    )


def release(pipe: int, nonce: str) -> None:
    """Give the waiting check its nonce, which sets it going."""
    with contextlib.suppress(BrokenPipeError):
        os.write(pipe, nonce.encode() + b"\n")
    os.close(pipe)


def refused(tell: Callable[[str, str], None], text: str) -> harness.Report:
    tell("harness", text)
    return harness.Report(failure="refused", log_text=f"[harness] {text}\n")


def needs_of(source: bytes) -> frozenset[str]:
    """What the header asks for; nothing where it cannot be read."""
    try:
        return frozenset(harness.parse_header(source.decode()).needs)
    except (harness.ContractError, UnicodeDecodeError):
        return frozenset()


@contextmanager
def user_of(layers: Layers, cache: str) -> Iterator[int | None]:
    """The user of one check: its own, the cache's, or the worker's (None)."""
    if layers.uid != "own":
        yield None
    elif cache:
        yield uids.of_cache(cache)
    else:
        with uids.lease() as uid:
            yield uid


def prepare_cache(path: str, uid: int | None) -> None:
    """Make the cache's folder and give it to its user; never through a link.

    What another user has filled, it could not write: then it begins anew.
    """
    wanted = os.geteuid() if uid is None else uid
    if Path(path).exists() and Path(path).lstat().st_uid != wanted:
        scratch.remove(path)
    Path(path).mkdir(mode=0o700, parents=True, exist_ok=True)
    if uid is None:
        return
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        os.fchown(handle, uid, policy.GID)
    finally:
        os.close(handle)


def open_to(folder: str, uid: int | None) -> str:
    """Where below a folder of ours the check has its own."""
    if uid is not None:
        Path(folder).chmod(0o711)
    return f"{folder}/run"
