"""Namespaces and mounts: the box around a build, and a fresh one for each check.

`enter` makes the outer box where there is no bubblewrap: a root of read-only binds.
`enter_fresh` makes, inside either, what one check has for itself: process ids,
network, IPC, /proc, /tmp and /dev/shm. Both return in a child that is process 1 of
its namespace; their caller's process waits for it and ends with it. `fork_fresh` and
`furnish` are the same for a caller that goes on.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import struct

import kernel

TYPE_CHECKING = False  # as mypy knows it; typing alone takes 10 ms to import
if TYPE_CHECKING:
    from typing import Any, List, Mapping, NoReturn, Sequence, Set, Tuple

CLONE_NEWNS = 0x00020000
CLONE_NEWUTS = 0x04000000
CLONE_NEWIPC = 0x08000000
CLONE_NEWUSER = 0x10000000
CLONE_NEWPID = 0x20000000
CLONE_NEWNET = 0x40000000
EACH = CLONE_NEWNS | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWPID | CLONE_NEWNET

MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC = 1, 2, 4, 8
MS_REMOUNT, MS_BIND, MS_REC, MS_PRIVATE = 32, 4096, 16384, 1 << 18
MS_NOATIME, MS_NODIRATIME, MS_RELATIME = 1024, 2048, 1 << 21
MNT_DETACH = 2
FLAGS = {
    "ro": MS_RDONLY,
    "nosuid": MS_NOSUID,
    "nodev": MS_NODEV,
    "noexec": MS_NOEXEC,
    "noatime": MS_NOATIME,
    "nodiratime": MS_NODIRATIME,
    "relatime": MS_RELATIME,
}
SIOCGIFFLAGS, SIOCSIFFLAGS, IFF_UP = 0x8913, 0x8914, 1
AF_INET, SOCK_DGRAM = 2, 2
DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
# The uid inside where the outside user is root: never 0.
PLAIN_UID = 62000


def enter_fresh(*, tmp_mib: int = 768, shm_mib: int = 256, inodes: int = 16384) -> None:
    """Give this process's work a fresh set of namespaces and temporary folders.

    Call it single-threaded, inside the outer box. Returns in a child, process 1 of
    the new namespace, which still has what capabilities it takes to become another
    user; the calling process ends when that child ends. Raises OSError.
    """
    unshare()
    become_first()
    furnish(tmp_mib=tmp_mib, shm_mib=shm_mib, inodes=inodes)


def fork_fresh() -> int:
    """os.fork() whose child is process 1 of a fresh set of namespaces.

    One process less than `enter_fresh`, which counts where a process is large. Call it
    single-threaded; the child calls `furnish` next. Raises OSError, in either.
    """
    ids = None if kernel.may_administer() else (os.geteuid(), os.getegid())
    if ids:
        kernel.prctl(kernel.PR_SET_DUMPABLE, 1)  # as in `unshare`
    pid: int = kernel.clone(EACH | (CLONE_NEWUSER if ids else 0))
    if pid == 0:
        kernel.die_with_parent()
        if ids:
            map_user(*ids)
        name_host()
        os.setsid()
    return pid


def furnish(*, tmp_mib: int = 768, shm_mib: int = 256, inodes: int = 16384) -> None:
    """Fill the namespaces that this process is the first in. Raises OSError."""
    private_mounts()
    mount_fresh(tmp_mib, shm_mib, inodes)
    loopback_up()


def enter(view: Sequence[Mapping[str, Any]]) -> None:
    """The same for the outer box: `view` is its root, and nothing else exists.

    Entries: {"kind": "bind", "source", "target", "write": bool, "device": bool},
    {"kind": "symlink", "to", "target"}, {"kind": "file", "target", "text"},
    {"kind": "empty", "target"} (covers what an entry before it shows there). Sources
    have no symbolic links in them.
    """
    unshare()
    become_first()
    private_mounts()
    build_root(view)
    loopback_up()


def unshare() -> None:
    """Enter new namespaces, including a user namespace where one is needed."""
    kernel.die_with_parent()
    # Root may do without: then real uids exist inside, one for each run.
    if kernel.may_administer():
        kernel.check(kernel.libc.unshare(EACH), "unshare")
    else:
        uid, gid = os.geteuid(), os.getegid()
        kernel.prctl(kernel.PR_SET_DUMPABLE, 1)  # else the maps below belong to root
        kernel.check(kernel.libc.unshare(EACH | CLONE_NEWUSER), "unshare")
        map_user(uid, gid)
    name_host()


def map_user(uid: int, gid: int) -> None:
    """Map only the user outside into the user namespace."""
    write("/proc/self/setgroups", "deny")
    write("/proc/self/uid_map", "%d %d 1" % (uid or PLAIN_UID, uid))
    write("/proc/self/gid_map", "%d %d 1" % (gid or PLAIN_UID, gid))


def name_host() -> None:
    name = b"localhost"
    kernel.check(kernel.libc.sethostname(name, len(name)), "sethostname")


def write(path: str, text: str) -> None:
    number = os.open(path, os.O_WRONLY)
    try:
        os.write(number, text.encode())
    except OSError as error:
        raise OSError(error.errno, "%s: %s" % (path, error.strerror)) from None
    finally:
        os.close(number)


def become_first() -> None:
    """Fork into the new process namespace; only the child returns."""
    ready, go = os.pipe()
    pid = os.fork()
    if pid:
        wait_and_end(pid, go)
    os.close(go)
    kernel.die_with_parent()
    # getppid() is 0 in here: the pipe tells whether the parent died before that.
    gone = not os.read(ready, 1)
    os.close(ready)
    if gone:
        os._exit(1)
    os.setsid()


def wait_and_end(pid: int, go: int) -> NoReturn:
    """Exit as the child did, with no descriptor open that others wait for.

    Of one that a signal ended with 128 and its number, as bubblewrap does.
    """
    # Before the child goes on: it changes the root of this process as well.
    kernel.close_all_but(go)
    os.write(go, b"g")
    os.close(go)
    _, status = os.waitpid(pid, 0)
    killed = os.WIFSIGNALED(status)
    os._exit(128 + os.WTERMSIG(status) if killed else os.WEXITSTATUS(status))


# --- mounts ------------------------------------------------------------------


def mount(
    source: str, target: str, kind: str = "", flags: int = 0, options: str = ""
) -> None:
    words = [
        word.encode("utf-8", "surrogateescape") if word else None
        for word in (source, target, kind)
    ]
    data = options.encode() if options else None
    result = kernel.libc.mount(*words, ctypes.c_ulong(flags), data)
    kernel.check(result, "mount %s on %s" % (source or kind, target))


def private_mounts() -> None:
    """Keep later mounts from propagating to the outside."""
    mount("none", "/", flags=MS_REC | MS_PRIVATE)


def mounts() -> List[Tuple[str, int]]:
    """Mount points in order, with the flags that a remount must keep."""
    points = []
    with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as f:
        for line in f:
            fields = line.split()
            flags = sum(FLAGS.get(name, 0) for name in fields[5].split(","))
            points.append((unescape(fields[4]), flags))
    return points


def unescape(text: str) -> str:
    for code, character in (("040", " "), ("011", "\t"), ("012", "\n")):
        text = text.replace("\\" + code, character)
    return text.replace("\\134", "\\")


def below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def tmpfs(target: str, mib: int, inodes: int, mode: str = "1777") -> None:
    options = "size=%dm,nr_inodes=%d,mode=%s" % (mib, inodes, mode)
    mount("tmpfs", target, "tmpfs", MS_NOSUID | MS_NODEV, options)


def mount_fresh(tmp_mib: int, shm_mib: int, inodes: int) -> None:
    """A new /tmp, /dev/shm and /proc; builds that lie below /tmp stay visible."""
    kept = {path for path, _ in mounts() if below(path, "/tmp/")}
    tops = [path for path in sorted(kept) if is_top(path, kept)]
    handles = {path: os.open(path, os.O_PATH) for path in tops}
    tmpfs("/tmp", tmp_mib, inodes)
    for path, handle in handles.items():
        make_point(path, os.path.isdir("/proc/self/fd/%d" % handle))
        mount("/proc/self/fd/%d" % handle, path, flags=MS_BIND | MS_REC)
        os.close(handle)
    tmpfs("/dev/shm", shm_mib, inodes)
    mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC)
    if kernel.may_administer():
        # Real root owns these; a check that has to stay root must not write there.
        for name in ("sys", "sysrq-trigger", "irq", "bus"):
            cover_read_only("/proc/" + name)


def show_one(folder: str, at: str, among: str) -> None:
    """Show `folder` at `at`, and cover all of those `among` which it lies.

    Call it before the process is confined, which then cannot lift the cover. Raises
    OSError.
    """
    mount(folder, at, flags=MS_BIND)
    tmpfs(among, 1, 16, "0555")
    flags = MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | MS_NODEV
    mount("none", among, flags=flags)


def cover_read_only(path: str) -> None:
    if os.path.exists(path):
        flags = MS_NOSUID | MS_NODEV | MS_NOEXEC
        mount(path, path, flags=MS_BIND)
        mount("none", path, flags=MS_REMOUNT | MS_BIND | MS_RDONLY | flags)


def is_top(path: str, among: Set[str]) -> bool:
    """Whether this mount is below no other one of these."""
    return not any(other != path and below(path, other) for other in among)


def make_point(path: str, is_folder: bool) -> None:
    """Create a mount point."""
    if is_folder:
        os.makedirs(path, 0o755, exist_ok=True)
        return
    os.makedirs(os.path.dirname(path), 0o755, exist_ok=True)
    os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o644))


def build_root(view: Sequence[Mapping[str, Any]]) -> None:
    """Make the view the root; the old root is gone when this returns.

    Twice over, as bubblewrap does: so the sources can be named by their own paths even
    when they lie below the folder on which the new root is mounted first.
    """
    old_mask = os.umask(0o022)
    tmpfs("/tmp", 16, 16384, "0755")
    os.chdir("/tmp")
    os.mkdir("new")
    os.mkdir("old")
    pivot(".", "old")
    os.chdir("/")
    mount("/new", "/new", flags=MS_BIND)
    # Serves until the new one is mounted: the list of mounts is read there.
    os.symlink("old/proc", "/proc")
    for folder in ("/new/proc", "/new/tmp", "/new/dev/shm"):
        os.makedirs(folder)
    for folder in ("/new/tmp", "/new/dev/shm"):
        tmpfs(folder, 16, 4096)
    place_devices()
    for entry in view:
        place(entry)
    mount("proc", "/new/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC)
    os.chdir("/new")
    pivot(".", ".")
    kernel.check(kernel.libc.umount2(b".", MNT_DETACH), "umount of the old root")
    os.chdir("/")
    mount("none", "/", flags=MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | MS_NODEV)
    os.umask(old_mask)


def place_devices() -> None:
    for name in DEVICES:
        if os.path.exists("/old/dev/" + name):
            place(
                {
                    "kind": "bind",
                    "source": "/dev/" + name,
                    "device": True,
                    "target": "/dev/" + name,
                }
            )
    links = {"fd": "/proc/self/fd", "stdin": "fd/0", "stdout": "fd/1", "stderr": "fd/2"}
    for name, to in links.items():
        os.symlink(to, "/new/dev/" + name)


def pivot(new: str, old: str) -> None:
    number = kernel.NUMBERS[kernel.MACHINE]["pivot_root"]
    kernel.syscall(number, new.encode(), old.encode())


def place(entry: Mapping[str, Any]) -> None:
    """Put one entry of the view below /new."""
    target, kind = "/new" + entry["target"], entry["kind"]
    if kind == "symlink":
        os.makedirs(os.path.dirname(target), exist_ok=True)
        os.symlink(entry["to"], target)
    elif kind == "file":
        os.makedirs(os.path.dirname(target), exist_ok=True)
        with open(target, "w", encoding="utf-8") as file:
            file.write(entry["text"])
    elif kind == "empty":
        os.makedirs(target, exist_ok=True)
        tmpfs(target, 1, 1024, "0755")
    else:
        bind(entry, target)


def bind(entry: Mapping[str, Any], target: str) -> None:
    # The source has no symbolic links: they would lead into the new root.
    source = "/old" + entry["source"]
    make_point(target, os.path.isdir(source))
    mount(source, target, flags=MS_BIND | MS_REC)
    if entry.get("device"):
        return
    more = MS_NOSUID | MS_NODEV | (0 if entry.get("write") else MS_RDONLY)
    for path, flags in mounts():
        if below(path, target):
            mount("none", path, flags=MS_REMOUNT | MS_BIND | flags | more)


def loopback_up() -> None:
    """Bring up the loopback interface of the new network namespace."""
    # Without the socket module: its import would be a tenth of the whole start.
    handle = kernel.check(kernel.libc.socket(AF_INET, SOCK_DGRAM, 0), "socket")
    try:
        request = struct.pack("16sh22x", b"lo", 0)
        answer = fcntl.ioctl(handle, SIOCGIFFLAGS, request)
        flags = struct.unpack("16sh22x", answer)[1] | IFF_UP
        fcntl.ioctl(handle, SIOCSIFFLAGS, struct.pack("16sh22x", b"lo", flags))
    finally:
        os.close(handle)


def failures() -> List[str]:
    """What this layer lets through here: processes, networks, files of the machine."""
    import socket  # here alone: it would be a tenth of every start

    wrong = []
    if len([name for name in os.listdir("/proc") if name.isdigit()]) > 2:
        wrong.append("foreign processes can be seen")
    if [name for _, name in socket.if_nameindex()] != ["lo"]:
        wrong.append("the network is not its own")
    if not kernel.refused(lambda: os.mkdir("/doesitnan"), errno.EROFS, errno.EACCES):
        wrong.append("the root can be written")
    if os.path.exists("/etc/shadow") or os.path.exists("/var/log"):
        wrong.append("files of the machine can be seen")
    return wrong
