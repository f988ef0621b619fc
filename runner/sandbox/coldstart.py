"""Cold starts: each check in a fresh interpreter in the strongest sandbox here."""

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

from portable import harness
from runner.sandbox import box, cgroups, layout, policy, scratch, uids, view
from runner.sandbox.jail import wire
from runner.sandbox.probes import Capabilities
from runner.sandbox.process import BoxProcess, Pipes
from runner.sandbox.tiers import ROOT, SHARED_ROOT, Layers, letter

CANNOT_EXECUTE = "cannot execute"  # as jail/launch.py reports it
# What a tier without namespaces cannot give: it has no sockets.
NEED_NAMESPACES = frozenset({"loader", "loopback"})


class Refused(Exception):
    """The check was not started; the text says why."""


@dataclass(frozen=True)
class Workspace:
    """User and folders of one check, by the paths that the check sees.

    `uid`: None for the worker's own. `cache`: its compile cache or "", which is
    `cache_source` on this machine. `token`: mark in the environment of its processes,
    where no namespace keeps track of them, else "".
    """

    uid: int | None
    scratch: str
    cache: str
    cache_source: str
    token: str

    @property
    def marks(self) -> dict[str, str]:
        return {"DOESITNAN_CHILD": self.token} if self.token else {}


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
    compile_seed: str = ""
    compile_caches: str = ""
    on_line: Callable[[str, str, str], None] | None = None
    cancelled: Callable[[], bool] | None = None
    allow_shared_root: bool = False

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
            tell("harness", str(error))
            log = f"[harness] {error}\n"
            return harness.Report(failure="refused", log_text=log)
        if CANNOT_EXECUTE in process.trouble:
            report.failure = "build_missing"
        return report

    @contextmanager
    def started(self, spec: harness.CheckSpec) -> Iterator[BoxProcess]:
        """The check in its sandbox, waiting for its nonce.

        Raises Refused, NoUser, NotStarted, OSError.
        """
        source = Path(self.repro).read_bytes()
        needs = needs_of(source)
        if why := self.refusal(needs):
            raise Refused(why)
        cache = self.compile_cache if "compiler" in needs else ""
        with workspace(self.layers, cache) as space:
            yield self.process(spec, source, space)

    def refusal(self, needs: frozenset[str]) -> str:
        """Why no repro with these needs may run in these layers; "" where one may."""
        if self.found.nothing:
            return self.found.nothing
        if self.layers.uid == SHARED_ROOT and not self.allow_shared_root:
            closed = policy.closed_part(self.found.layers, self.build)
            why = f" (other users cannot read {closed})" if closed else ""
            return f"{ROOT.missing[0]}{why}. {ROOT.remedy[0]}"
        lacking = sorted(needs & NEED_NAMESPACES)
        if lacking and letter(self.layers) == "C":
            return f"needs {', '.join(lacking)}, which sandbox tier C does not give"
        return ""

    @property
    def build(self) -> layout.Layout:
        return layout.layout_of(self.interpreter)

    @cached_property
    def layers(self) -> Layers:
        """The sandbox layers for this build."""
        return policy.layers_for(self.found.layers, self.interpreter)

    @cached_property
    def entries(self) -> list[view.Entry]:
        """The view of the checks, without a compile cache."""
        return view.build_view(
            self.build,
            hidden=self.hidden,
            gpus=self.gpus,
            users=policy.users(),
        )

    def process(
        self, spec: harness.CheckSpec, source: bytes, space: Workspace
    ) -> BoxProcess:
        cache = view.cache_entries(space.cache_source) if space.cache_source else []
        entries = [*self.entries, *cache]
        check_policy = policy.check_policy(
            self.layers,
            scratch=space.scratch,
            entries=entries,
            uid=space.uid,
            compile_cache=space.cache,
            gpus=self.gpus,
        )
        path = f"{space.scratch}/{Path(self.repro).name}"
        check_policy["source"] = path
        extra = {**spec.environment, **space.marks}
        env = policy.environment(
            space.scratch, extra, compile_cache=space.cache, gpus=self.gpus
        )
        inside = self.layers.namespaces is not None
        script = view.INSIDE_HARNESS if inside else str(view.HARNESS)
        command = harness.child_command(self.interpreter, script, path, spec)
        group, token = self.group(spec), space.token
        return launch(check_policy, command, entries, env, source, group, token, self)

    def group(self, spec: harness.CheckSpec) -> cgroups.Group | None:
        if self.found.cgroups is None:
            return None
        return self.found.cgroups.create(spec.memory_mib, policy.PROCESSES)


def launch(
    check_policy: policy.Policy,
    command: list[str],
    entries: list[view.Entry],
    env: dict[str, str],
    source: bytes,
    group: cgroups.Group | None,
    token: str,
    start: ColdStart,
) -> BoxProcess:
    """Start the sandbox with pipes for the check; removes `group` if it fails."""
    with ExitStack() as failed, ExitStack() as inherited:
        if group:
            failed.callback(group.remove)
        pipes = Pipes()
        failed.callback(wire.close_all, [pipes.nonce_out, *pipes.readers])
        inherited.callback(wire.close_all, pipes.child_ends)
        entering = group.entry_fds() if group else []
        inherited.callback(wire.close_all, entering)
        channel = pipes.writers[-1]
        started = box.start(
            check_policy,
            [*command, "--fd", str(channel)],
            entries,
            env=env,
            stdin=pipes.nonce_in,
            stdout=pipes.writers[0],
            stderr=pipes.writers[1],
            given=box.Given([channel], start.hold_fds, entering, source),
        )
        failed.pop_all()
    return BoxProcess(
        *(started.control, pipes.readers, functools.partial(release, pipes.nonce_out)),
        outer=started.process,
        group=group,
        token=token,
        sealed=policy.seals(start.layers),
    )


def release(pipe: int, nonce: str) -> None:
    """Send the waiting check its nonce, which starts it."""
    with contextlib.suppress(BrokenPipeError):
        os.write(pipe, nonce.encode() + b"\n")
    os.close(pipe)


def needs_of(source: bytes) -> frozenset[str]:
    """`needs` of the header; empty where it cannot be parsed."""
    try:
        return frozenset(harness.parse_header(source.decode()).needs)
    except (harness.ContractError, UnicodeDecodeError):
        return frozenset()


@contextmanager
def workspace(layers: Layers, cache: str) -> Iterator[Workspace]:
    """User and folders for one check. Raises NoUser, OSError."""
    with user_of(layers, cache) as uid:
        if cache:
            prepare_cache(cache, uid)
        if layers.namespaces is not None:
            inside = view.INSIDE_CACHE if cache else ""
            yield Workspace(uid, view.SCRATCH, inside, cache, "")
            return
        with scratch.scratch_folder() as folder:
            if uid is not None:
                Path(folder).chmod(0o711)
            # Below the folder: the check makes and owns its own.
            token = secrets.token_hex(16)
            yield Workspace(uid, f"{folder}/run", cache, cache, token)


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


def cache_owner(layers: Layers, cache: str) -> tuple[int, int] | None:
    """User and group of the runs that share a cache; None for the worker's own."""
    return (uids.of_cache(cache), policy.GID) if layers.uid == "own" else None


def prepare_cache(path: str, uid: int | None) -> None:
    """Create the cache folder and give it to its user, never through a link.

    A cache of another user is deleted, because this one could not write to it.
    """
    owner = os.geteuid() if uid is None else uid
    if Path(path).exists() and Path(path).lstat().st_uid != owner:
        scratch.remove(path)
    Path(path).mkdir(mode=0o700, parents=True, exist_ok=True)
    if uid is None:
        return
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        os.fchown(handle, uid, policy.GID)
    finally:
        os.close(handle)
