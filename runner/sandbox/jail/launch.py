"""Start a command in the jail that a policy describes. Runs as a script:

    launch.py POLICY_FD COMMAND [ARGUMENT ...]

POLICY_FD: a file with the policy, marshalled by the same Python. `role` "check": fresh
namespaces where the policy has namespaces, an init, and in it the confined command.
`role` "parent": the outer box alone, and in it an init with the command that forks
checks.
"""

from __future__ import annotations

import marshal
import os
import sys

# Only this file's neighbours: no site, no folder of the caller (-I).
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
# All at once: once the root has changed, this Python may not find its files.
import confine
import init
import kernel
import namespaces

del sys.path[0]

TYPE_CHECKING = False  # as mypy knows it; typing alone takes 10 ms to import
if TYPE_CHECKING:
    from typing import Any, List, Mapping, NoReturn


def main() -> None:
    kernel.die_with_parent()
    with open(int(sys.argv[1]), "rb") as file:
        policy = marshal.load(file)
    fds = policy["fds"]
    try:
        enter(policy)
    except OSError as error:
        give_up(fds["report"], str(error))
    init.run(
        lambda: become_command(policy, sys.argv[2:]),
        lambda: None,
        fds["report"],
        alone=bool(policy["namespaces"]),
        keep=fds["held"],
    )


def give_up(report_fd: int, text: str) -> NoReturn:
    """Say why nothing was started, and end."""
    init.say(report_fd, {"status": None, "error": text})
    os._exit(1)


def enter(policy: Mapping[str, Any]) -> None:
    """The namespaces of the policy; afterwards this is process 1 of them."""
    if policy["namespaces"] == "unshare":
        namespaces.enter(policy["view"])
    if policy["namespaces"] and policy["role"] == "check":
        namespaces.enter_fresh(**policy["fresh"])


def become_command(policy: Mapping[str, Any], command: List[str]) -> None:
    """Prepare the scratch folder, confine this process and execute the command."""
    fds = policy["fds"]
    if policy["role"] == "check":
        prepare(policy)
        os.chdir(policy["scratch"])
        confine.apply(policy, fds["cgroup"])
    # Python ignores these two, and what is ignored stays so in a new program.
    for number in (kernel.SIGPIPE, kernel.SIGXFSZ):
        kernel.libc.signal(number, None)
    keep = {*fds["passed"], 0, 1, 2}
    for number in kernel.open_descriptors() | keep:
        try:
            os.set_inheritable(number, number in keep)
        except OSError:
            continue  # The one that listed them is gone already.
    try:
        os.execv(command[0], command)  # the whole purpose
    except OSError as error:
        text = "cannot execute %s: %s" % (command[0], error.strerror)
        raise OSError(error.errno, text) from None


def prepare(policy: Mapping[str, Any]) -> None:
    """Folders and source of the check."""
    confine.make_folders(policy)
    source_fd = policy["fds"]["source"]
    if source_fd is not None:
        with open(source_fd, "rb") as file:
            confine.write_source(policy["source"], file.read())


if __name__ == "__main__":
    main()
