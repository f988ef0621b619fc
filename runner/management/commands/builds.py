"""`manage.py builds`: scan, add, list and remove the torch builds of this host."""

import argparse
import json
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from kb import progress as pages
from runner.builds import index, install, inventory, registry, sizes
from runner.builds.install import Attempt
from runner.builds.probe import BuildError
from runner.models import Installation
from runner.runs import jobs

# Exit status where what was asked for cannot be had; 1 is an error nobody foresaw.
REFUSED = 2
WITH_WHAT = "--with needs a version: builds add 2.13.0 --with ..."
# Loading all records on a slow machine holds the database for minutes.
BUSY_AT_MOST = timedelta(minutes=15)


class Command(BaseCommand):
    requires_system_checks: list[str] = []  # no pages here
    help = "Look for torch builds on this host, add, list or remove them."

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        commands = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
        scan = commands.add_parser(
            "scan", help="look for torch in the Pythons of this host"
        )
        scan.add_argument(
            "--install-default",
            action="store_true",
            help="install the default build if this host has no torch",
        )
        scan.add_argument(
            "--only-changed",
            action="store_true",
            help="skip builds whose files did not change since the last probe",
        )
        for command in (scan, self.add_of(commands)):
            command.add_argument(
                "--cuda",
                action="store_true",
                help="allow the CUDA wheel if there is no CPU wheel",
            )
        list_ = commands.add_parser(
            "list", help="list every known build and its installations"
        )
        list_.add_argument("--json", action="store_true", help="print it as JSON")
        remove = commands.add_parser(
            "remove", help="delete an installation, or forget your own"
        )
        remove.add_argument("slug")
        remove.add_argument(
            "--python", type=Path, help="only this one of several installations"
        )

    def add_of(self, commands: Any) -> argparse.ArgumentParser:
        add: argparse.ArgumentParser = commands.add_parser(
            "add", help="install a release, or name a Python"
        )
        what = add.add_mutually_exclusive_group()
        what.add_argument(
            "version", nargs="?", help="such as 2.6.0; without it: the default build"
        )
        what.add_argument(
            "--python",
            type=Path,
            help="your own Python with torch, or its environment",
        )
        what.add_argument("--wheel", type=Path, help="a torch wheel file")
        what.add_argument(
            "--newest",
            action="store_true",
            help="install new releases from the package indexes",
        )
        add.add_argument(
            "--with",
            dest="with_",
            action="append",
            default=[],
            metavar="PACKAGE==VERSION",
            help="package to install beside torch, also git+https://...@COMMIT; "
            "repeatable",
        )
        add.add_argument(
            "--install-only",
            action="store_true",
            help="install the default build without writing to the database",
        )
        add.add_argument(
            "--yes",
            action="store_true",
            help=f"do not ask before a download of more than {sizes.ASK_ABOVE_MIB} MiB",
        )
        return add

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            getattr(self, options["action"])(options)
        except BuildError as error:
            raise CommandError(str(error), returncode=REFUSED) from error

    def say(self, text: str) -> None:
        self.stdout.write(text)
        self.stdout.flush()

    def scan(self, options: dict[str, Any]) -> None:
        """Look, and install if asked; again where others held the database too long."""
        jobs.retry(partial(self.look, options), BUSY_AT_MOST)

    def look(self, options: dict[str, Any]) -> None:
        # Not news where there is one already.
        has_torch = bool(registry.installations_here())
        with nullcontext() if has_torch else pages.of(pages.Work.TORCH):
            registry.scan(self.say, only_changed=options["only_changed"])
        chosen = registry.default_installation()
        if chosen and not (options["cuda"] and registry.default_interpreter() is None):
            registry.expect_nothing()
            self.say(f"Runs without a choice use {chosen.build_id}: {reason(chosen)}")
        elif options["install_default"]:
            self.say("No torch on this machine yet: one is installed.")
            install.add(list(install.attempts_for_default(options["cuda"])), self.say)
        else:
            registry.expect_nothing()

    def add(self, options: dict[str, Any]) -> None:
        with_ = options["with_"]
        agree = sizes.asking(self.say, yes=options["yes"])
        if options["python"]:
            if with_:
                raise CommandError("--with installs; your own Python is not written to")
            self.add_python(options["python"])
            return
        if options["newest"]:
            if with_:
                raise CommandError(WITH_WHAT)
            self.add_newest(agree)
            return
        attempts = list(attempts_for(options))
        if options["install_only"]:
            done = install.install(attempts, self.say, agree)
            self.say(str(done.interpreter))
        else:
            install.add(attempts, self.say, with_ or None, agree)

    def add_newest(self, agree: Callable[[Attempt], None]) -> None:
        """One at a time; one that does not install keeps none of the others out."""
        lacking = index.lacking(index.releases())
        self.say(f"New on the index: {', '.join(lacking) or 'nothing'}.")
        added, failed = [], []
        for version in lacking:
            try:
                attempts = [install.attempt_for_version(version, [])]
                row = install.add(attempts, self.say, None, agree)
                added.append(f" --build {row.build_id}")
            except BuildError as error:
                failed.append(f"{version} is not installed:\n{error}")
        if added:
            self.say(f"Next: manage.py matrix{''.join(added)}")
        if failed:
            raise BuildError("\n".join(failed))

    def add_python(self, path: Path) -> None:
        added = registry.add_python(path)
        self.say(registry.describe(added))
        if others := inventory.choice_line(added.build_id or ""):
            self.say(others)

    def list(self, options: dict[str, Any]) -> None:
        if options["json"]:
            together, one_by_one = inventory.disk()
            disk = {"together_mib": together, "one_by_one_mib": one_by_one}
            document = {"builds": inventory.rows(), "disk": disk}
            self.say(json.dumps(document, indent=2, ensure_ascii=False))
            return
        for line in inventory.lines():
            self.say(line)

    def remove(self, options: dict[str, Any]) -> None:
        for line in registry.remove(options["slug"], options["python"]):
            self.say(line)


def attempts_for(options: dict[str, Any]) -> Iterable[Attempt]:
    """What `add` installs. Raises BuildError, CommandError."""
    with_ = options["with_"]
    if options["wheel"]:
        return [install.attempt_for_wheel(options["wheel"], with_)]
    if options["version"]:
        return [install.attempt_for_version(options["version"], with_)]
    if with_:
        raise CommandError(WITH_WHAT)
    return install.attempts_for_default(options["cuda"])


def reason(chosen: Installation) -> str:
    """Why no other torch was looked for or installed."""
    if chosen.managed:
        return f"it was installed before, in {chosen.interpreter}"
    return f"{chosen.interpreter} has it, so none is installed"
