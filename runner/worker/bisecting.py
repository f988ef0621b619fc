"""Goes on with bisections: looks at an answer, installs a release, asks the next."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import asdict
from functools import partial

from kb.models import Repro
from runner.bisecting import queue, search, steps
from runner.bisecting.span import SpanError
from runner.builds import index, install, venvs
from runner.builds.probe import BuildError
from runner.models import Bisection
from runner.runs import jobs
from runner.runs.refusals import RunRefused
from runner.worker.lease import LeaseKeeper

log = logging.getLogger(__name__)
Ending = Callable[[], bool]
INDEX = "index"
CONTRADICTED = "contradicted"
NO_ENDS = "no_ends"


def execute(row: Bisection) -> bool:
    """Go on with a claimed bisection until it waits for a run, or ends.

    False when its lease was lost meanwhile.
    """
    repro = Repro.objects.filter(
        record=row.record_id, name=row.repro_name, digest=row.repro_digest
    ).first()
    if repro is None:
        return queue.finish(row, "refused")
    keeper = LeaseKeeper(row)
    keeper.start()
    try:
        ending = go_on(row, repro, keeper)
    finally:
        keeper.stop()
    if keeper.lost:
        log.warning("Bisection %s: lease lost", row.pk)
        return False
    return ending()


def go_on(row: Bisection, repro: Repro, keeper: LeaseKeeper) -> Ending:
    """Do what is next until it takes a run; how this claim is to end."""
    queue.note_answer(row)
    while not keeper.should_stop():
        try:
            if row.install and row.offered is None:
                look_at_the_index(row, repro)
            known, standing = queue.follow(row, repro)
        except SpanError as error:
            return partial(queue.finish, row, NO_ENDS, sentences=error.sentences)
        except search.Contradicted as error:
            build = row.installed.get(error.build, error.build)
            told = {"build": build, "said": error.said, "answer": error.answer}
            return partial(queue.finish, row, CONTRADICTED, **told)
        if standing.turn:
            turn = steps.named_turn(known, standing.turn)
            return partial(queue.finish, row, **asdict(turn))
        name = str(standing.ask)
        slug = known.slug(name)
        if slug not in (row.offered or ()):
            # Once nobody renews the lease any more, as the run is waited for without.
            return partial(ask, row, repro, slug, known.trials)
        if not install_release(row, name):
            break
    queue.keep(row)
    return partial(jobs.cancelled if keeper.cancel_requested else jobs.give_back, row)


def ask(row: Bisection, repro: Repro, slug: str, trials: int) -> bool:
    """Wait for a run of this build; where it is refused, the build has no answer."""
    try:
        return queue.ask(row, repro, slug, trials)
    except RunRefused as error:
        row.steps = [*row.steps, steps.not_asked(slug, str(error))]
        return queue.keep(row) and jobs.give_back(row)


def look_at_the_index(row: Bisection, repro: Repro) -> None:
    """Find out once which releases there are; without an index it goes on without.

    Raises SpanError.
    """
    queue.keep(row, phase=INDEX)
    try:
        offered = index.releases()
    except BuildError as error:
        log.warning("Bisection %s: %s", row.pk, error)
        offered = []
    queue.widen(row, repro, offered)


def install_release(row: Bisection, release: str) -> bool:
    """Have this release installed; False where another installation is under way.

    A release that does not install is a step without an answer.
    """
    queue.keep(row, phase=f"{queue.INSTALLING}{release}")
    try:
        installed = install.add_release(release, [], partial(log.info, "%s"))
    except BuildError as error:
        if isinstance(error.__cause__, venvs.LockHeld):
            return False
        reason = str(error).splitlines()[-1]
        row.steps = [*row.steps, steps.not_asked(release, reason)]
        return queue.keep(row, phase="")
    slugs = {**row.installed, release: installed.build_id}
    return queue.keep(row, phase="", installed=slugs)
