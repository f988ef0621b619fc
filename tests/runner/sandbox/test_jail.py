"""Every layer of the jail really denies what it says: tried from inside."""

from __future__ import annotations

import fcntl
import json
import os
import re
import socket
import subprocess
import sys
import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from django.test import SimpleTestCase

from runner.sandbox import policy, view
from runner.sandbox.tiers import Layers
from tests.support import jails
from tests.support.jails import NAMESPACES, has, here, inside

sys.path.insert(0, str(view.JAIL))
import landlock  # found by path, as they run
import seccomp

HEADERS = {
    "x86_64": "/usr/include/x86_64-linux-gnu/asm/unistd_64.h",
    "aarch64": "/usr/include/asm-generic/unistd.h",
}


# What safety asks for by name, whatever else is on the list.
NAMED = (
    "ptrace process_vm_readv process_vm_writev pidfd_getfd kcmp unshare setns mount "
    "umount2 pivot_root fsopen fsmount move_mount open_tree mount_setattr add_key "
    "request_key keyctl bpf userfaultfd io_uring_setup perf_event_open kexec_load "
    "init_module finit_module delete_module reboot swapon swapoff clock_settime "
    "settimeofday open_by_handle_at syslog"
)


class SeccompTest(SimpleTestCase):
    def test_numbers_are_those_of_the_kernel(self) -> None:
        for machine, header in HEADERS.items():
            if not Path(header).exists():
                self.skipTest(f"no {header}")
            text = Path(header).read_text()
            found = dict(re.findall(r"#define __NR(?:3264)?_(\w+)\s+(\d+)", text))
            shared = [*seccomp.SHARED, *seccomp.RIGHTS, *seccomp.TRUNCATION]
            for name in [*seccomp.DENIED, *seccomp.EXAMINED, *shared]:
                number = seccomp.number_of(name, machine)
                with self.subTest(machine=machine, name=name):
                    # Calls newer than these headers are not in them.
                    self.assertEqual(str(number), found.get(name, str(number)))

    def test_what_is_denied_is_denied(self) -> None:
        numbers = {
            name: seccomp.number_of(name, os.uname().machine) for name in seccomp.DENIED
        }
        ended = inside(
            Layers(seccomp=True),
            f"""
            numbers = {numbers!r}
            say(**{{name: tried(libc.syscall, ctypes.c_long(number), 0, 0, 0, 0, 0, 0)
                   for name, number in numbers.items() if number}})
            """,
        )
        wrong = {k: v for k, v in ended.said.items() if v != "EPERM"}
        self.assertEqual(wrong, {})
        self.assertLessEqual(set(NAMED.split()), set(ended.said))

    def test_what_depends_on_its_arguments(self) -> None:
        numbers = {
            name: seccomp.number_of(name, os.uname().machine)
            for name in ("clone", "clone3", "mknodat")
        }
        ended = inside(
            Layers(seccomp=True),
            f"""
            import fcntl, subprocess, threading
            n = {numbers!r}
            pair = socket.socketpair()
            thread = threading.Thread(target=lambda: None)
            thread.start(); thread.join()
            os.mkfifo("pipe")
            say(
                namespace=tried(libc.syscall, n["clone"], 0x10000000 | 17, 0, 0, 0, 0),
                clone3=tried(libc.syscall, n["clone3"], 0, 0),
                device=tried(os.mknod, "node", 0o020666, os.makedev(1, 3)),
                push=tried(lambda: fcntl.ioctl(pair[0], 0x5412, b"x")),
                push_wide=tried(libc.ioctl, pair[0].fileno(),
                                ctypes.c_ulong(0xdead00005412), b"x"),
                parent_limits=tried(
                    lambda: resource.prlimit(os.getppid(), resource.RLIMIT_CORE)),
                vsock=tried(lambda: socket.socket(40)),
                alg=tried(lambda: socket.socket(38)),
                internet=tried(lambda: socket.socket().fileno()),
                memfd=tried(os.memfd_create, "x"),
                own_limits=tried(
                    lambda: resource.setrlimit(resource.RLIMIT_CORE, (0, 0))),
                program=subprocess.run(["true"]).returncode,
            )
            """,
            env={"PATH": os.environ["PATH"]},
            change={"seccomp": {"level": "jail"}},
        )
        self.assertEqual(
            ended.said,
            {
                "namespace": "EPERM",
                "clone3": "ENOSYS",
                "device": "EPERM",
                "push": "EPERM",
                "push_wide": "EPERM",
                "parent_limits": "EPERM",
                "vsock": "EACCES",
                "alg": "EACCES",
                "internet": "done",
                "memfd": "done",
                "own_limits": "done",
                "program": 0,
            },
            ended,
        )

    def test_without_namespaces_there_are_no_sockets_to_anything(self) -> None:
        with (
            tempfile.TemporaryDirectory() as folder,
            socket.socket(socket.AF_UNIX) as server,
            socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as mailbox,
        ):
            server.bind(f"{folder}/server")
            server.listen()
            mailbox.bind(f"{folder}/mailbox")
            ended = inside(
                Layers(seccomp=True),
                f"""
                unix, stream, datagram = socket.AF_UNIX, socket.SOCK_STREAM, 2
                a, b = socket.socketpair()
                a.send(b"x")
                say(
                    internet=tried(lambda: socket.socket()),
                    udp=tried(lambda: socket.socket(2, datagram)),
                    netlink=tried(lambda: socket.socket(16, 3)),
                    shared=tried(libc.shmget, 0, 4096, 0o1600),
                    queue=tried(libc.msgget, 0, 0o1600),
                    connect=tried(
                        lambda: socket.socket(unix).connect("{folder}/server")),
                    datagram=tried(lambda: socket.socket(unix, datagram)),
                    raw=tried(lambda: socket.socket(unix, socket.SOCK_RAW)),
                    raw_pair=tried(lambda: socket.socketpair(unix, socket.SOCK_RAW)),
                    packets=tried(lambda: socket.socketpair(unix, 5)),
                    pair=tried(lambda: socket.socketpair(unix, datagram)),
                    addressed=tried(lambda: a.sendto(b"x", "{folder}/mailbox")),
                    among_themselves=b.recv(1).decode(),
                )
                """,
            )
        self.assertEqual(
            ended.said,
            {
                "internet": "EACCES",
                "udp": "EACCES",
                "netlink": "EACCES",
                "shared": "EPERM",
                "queue": "EPERM",
                "connect": "EACCES",
                "datagram": "EPERM",
                "raw": "EPERM",
                "raw_pair": "EPERM",
                "packets": "done",
                "pair": "EPERM",
                "addressed": "EACCES",
                "among_themselves": "x",
            },
            ended,
        )


class LandlockTest(SimpleTestCase):
    def setUp(self) -> None:
        try:
            landlock.abi()
        except OSError:
            self.skipTest("this kernel has no Landlock")
        self.assertTrue(here().landlock)

    def test_files_beyond_the_rules_are_out_of_reach(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            secret = Path(folder, "secret")
            secret.write_text("s")
            for abi in sorted({1, 3, here().landlock or 1}):
                ended = inside(
                    Layers(landlock=abi),
                    f"""
                    open("mine", "w").write("m")
                    os.mkdir("folder")
                    say(
                        read=tried(lambda: open("{secret}").read()),
                        listed=tried(lambda: os.listdir("{folder}")),
                        written=tried(lambda: open("{folder}/new", "w")),
                        linked=tried(os.link, "mine", "{folder}/link"),
                        unlinked=tried(os.unlink, "{secret}"),
                        program=tried(os.stat, sys.executable),
                        own=open("mine").read(),
                        null=tried(lambda: open("/dev/null", "w").write("")),
                    )
                    """,
                )
                with self.subTest(abi=abi):
                    self.assertEqual(ended.said.pop("linked")[:1], "E")
                    self.assertEqual(
                        ended.said,
                        {
                            "read": "EACCES",
                            "listed": "EACCES",
                            "written": "EACCES",
                            "unlinked": "EACCES",
                            "program": "done",
                            "own": "m",
                            "null": "done",
                        },
                        ended,
                    )
            self.assertEqual(list(Path(folder).iterdir()), [secret])

    def test_network_signals_and_abstract_sockets_where_the_abi_has_them(self) -> None:
        abi = here().landlock or 0
        name = f"doesitnan-{os.getpid()}"
        with (
            socket.create_server(("127.0.0.1", 0)) as tcp,
            socket.socket(socket.AF_UNIX) as abstract,
        ):
            abstract.bind("\0" + name)
            abstract.listen()
            port = tcp.getsockname()[1]
            ended = inside(
                Layers(landlock=abi),
                f"""
                me = socket.socket(socket.AF_UNIX)
                say(
                    tcp=tried(lambda: socket.create_connection(("127.0.0.1", {port}))),
                    signal=tried(os.kill, {os.getpid()}, 0),
                    abstract=tried(me.connect, "\\0{name}"),
                )
                """,
            )
        wanted = {"tcp": "EACCES"} if abi >= 4 else {}
        if abi >= 6:
            wanted |= {"signal": "EPERM", "abstract": "EPERM"}
        self.assertEqual({k: ended.said[k] for k in wanted}, wanted, ended)


class LimitsTest(SimpleTestCase):
    def test_limits_hold_and_no_privilege_is_left(self) -> None:
        for layers in (Layers(), here()):
            ended = inside(
                layers,
                """
                names = ("CORE", "FSIZE", "NOFILE")
                lines = open("/proc/self/status").read().split("\\n")
                status = dict(line.split(":\\t", 1) for line in lines if ":\\t" in line)
                say(
                    hard=[resource.getrlimit(getattr(resource, "RLIMIT_" + n))[1]
                          for n in names],
                    held=[status["Cap" + n] for n in ("Eff", "Prm", "Inh", "Amb")],
                    bound=status["CapBnd"],
                    no_new=status["NoNewPrivs"],
                    groups=os.getgroups() if os.getuid() else [],
                )
                """,
            )
            with self.subTest(layers=layers):
                core, size, files = ended.said["hard"]
                self.assertEqual((core, size), (1, policy.FILE_MIB * 2**20))
                self.assertLessEqual(files, policy.OPEN_FILES)
                self.assertEqual({int(text, 16) for text in ended.said["held"]}, {0})
                self.assertEqual(ended.said["no_new"], "1")
                # An ordinary user has no right to lower it, and with no_new_privs
                # nothing is gained through it.
                if os.geteuid() == 0 or layers.namespaces:
                    self.assertEqual(int(ended.said["bound"], 16), 0)

    def test_what_cannot_be_applied_runs_nothing(self) -> None:
        ended = inside(
            Layers(), "say(ran=True)", change={"seccomp": {"level": "jail"}, "uid": -5}
        )
        self.assertEqual(ended.said, {})
        self.assertTrue(ended.report["error"])


class NamespacesTest(SimpleTestCase):
    def each(self) -> list[Layers]:
        kinds = [kind for kind in NAMESPACES if has(kind)]
        if not kinds:
            self.skipTest("this machine makes no namespaces")
        return [here()._replace(namespaces=kind) for kind in kinds]

    def test_nothing_of_the_machine_is_there(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as server:
            port = server.getsockname()[1]
            for layers in self.each():
                ended = inside(
                    layers,
                    f"""
                    listener = socket.create_server(("127.0.0.1", 0))
                    own = listener.getsockname()[1]
                    say(
                        processes=[int(n) for n in os.listdir("/proc") if n.isdigit()],
                        networks=[name for _, name in socket.if_nameindex()],
                        server=tried(
                            lambda: socket.create_connection(("127.0.0.1", {port}))),
                        loopback=tried(
                            lambda: socket.create_connection(("localhost", own))),
                        root=sorted(os.listdir("/")),
                        etc=sorted(os.listdir("/etc")),
                        checkout=os.path.exists({str(jails.ROOT)!r}),
                        written={{p: tried(lambda p=p: open(p + "/x", "w")) for p in
                                 ("/", "/usr", "/etc", "/run/doesitnan")}},
                        kernel=tried(lambda: open("/proc/sys/kernel/hostname", "w")),
                        host=socket.gethostname(),
                        terminal=tried(os.open, "/dev/tty", os.O_RDWR),
                        mounts=tried(libc.mount, b"t", b"/tmp", b"tmpfs", 0, None),
                    )
                    """,
                )
                with self.subTest(layers=layers):
                    found = ended.said
                    self.assertEqual(sorted(found["processes"]), [1, 2], ended)
                    self.assertEqual(found["networks"], ["lo"])
                    self.assertEqual(found["server"], "ECONNREFUSED")
                    self.assertEqual(found["loopback"], "done")
                    self.assertFalse({"home", "srv", "mnt"} & set(found["root"]))
                    self.assertFalse({"shadow", "ssl", "hostname"} & set(found["etc"]))
                    self.assertFalse(found["checkout"])
                    self.assertEqual(set(found["written"].values()), {"EROFS"})
                    self.assertIn(found["kernel"], ("EACCES", "EROFS"))
                    self.assertEqual(found["host"], "localhost")
                    self.assertNotEqual(found["terminal"], "done")
                    self.assertEqual(found["mounts"], "EPERM")

    def test_temporary_folders_have_an_end_in_bytes_and_in_files(self) -> None:
        for layers in self.each():
            ended = inside(
                layers,
                """
                sizes = {p: os.statvfs(p) for p in ("/tmp", "/dev/shm")}
                say(**{p: [s.f_blocks * s.f_frsize >> 20, s.f_files]
                       for p, s in sizes.items()}, home=os.getcwd(),
                    left=os.listdir("/tmp/run"))
                """,
            )
            with self.subTest(layers=layers):
                self.assertEqual(
                    ended.said["/tmp"],
                    [policy.TMP_MIB, policy.INODES],
                    ended,
                )
                self.assertEqual(
                    ended.said["/dev/shm"],
                    [policy.SHM_MIB, policy.INODES],
                )
                self.assertEqual(ended.said["home"], view.SCRATCH)

    def test_a_user_of_its_own_where_that_is_possible(self) -> None:
        for layers in self.each():
            ended = inside(
                layers,
                """
                import pwd
                say(uid=os.getuid(), name=pwd.getpwuid(os.getuid()).pw_dir,
                    init=os.stat("/proc/1").st_uid,
                    environ=tried(lambda: open("/proc/1/environ").read()),
                    stop=tried(os.kill, 1, signal.SIGKILL),
                    self=tried(lambda: open("/proc/self/environ").read()))
                """,
            )
            with self.subTest(layers=layers):
                if layers.uid == "own":
                    self.assertGreaterEqual(ended.said["uid"], 62000)
                    self.assertEqual(ended.said["stop"], "EPERM")
                self.assertEqual(ended.said["environ"], "EACCES")
                self.assertEqual(ended.said["self"], "done")
                self.assertEqual(ended.report["status"], 0, ended)


DAEMON = """
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.environ["IGNORED"] = "1"
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        time.sleep(600)
    os._exit(0)
os.wait()
say(done=True)
os._exit(7)
"""


class InitTest(SimpleTestCase):
    def layers(self) -> list[Layers]:
        return [
            Layers(uid=here().uid),
            *(here()._replace(namespaces=k) for k in NAMESPACES if has(k)),
        ]

    def test_a_daemon_ends_with_its_check(self) -> None:
        for number, layers in enumerate(self.layers()):
            mark = f"DOESITNAN_TEST=daemon-{os.getpid()}-{number}"
            name, _, value = mark.partition("=")
            ended = inside(layers, DAEMON, env={name: value})
            with self.subTest(layers=layers):
                self.assertEqual(ended.said, {"done": True}, ended)
                self.assertEqual(os.waitstatus_to_exitcode(ended.report["status"]), 7)
                self.assertEqual(jails.processes_with(mark), [])

    def test_a_held_lock_outlives_every_process_and_is_not_given_to_the_check(
        self,
    ) -> None:
        with tempfile.NamedTemporaryFile() as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            number = file.fileno()
            for layers in self.layers():
                ended = inside(
                    layers, f"say(mine=tried(os.fstat, {number}))", held=(number,)
                )
                with self.subTest(layers=layers):
                    self.assertEqual(ended.said, {"mine": "EBADF"}, ended)

    def test_many_start_at_once(self) -> None:
        # An outer process that lost its root too early took its check along.
        for layers in self.layers():
            with self.subTest(layers=layers), ThreadPoolExecutor(8) as threads:
                every = list(
                    threads.map(lambda _, i=layers: inside(i, "say(x=1)"), range(16))
                )
                self.assertEqual([e.said for e in every], [{"x": 1}] * 16, every)

    def test_the_check_has_no_descriptor_but_its_streams(self) -> None:
        for layers in self.layers():
            ended = inside(
                layers,
                "say(fds=sorted(int(n) for n in os.listdir('/proc/self/fd'))[:-1])",
            )
            with self.subTest(layers=layers):
                self.assertEqual(ended.said, {"fds": [0, 1, 2]}, ended)


FORKED = """
import json, os, socket, sys
sys.path.insert(0, sys.argv[1])
import confine, init
ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
def held():
    try:
        return bool(os.fstat(int(sys.argv[2])))
    except OSError:
        return False
def check():
    status = dict(l.split(":", 1) for l in open("/proc/self/status") if ":" in l)
    print(json.dumps({
        "sockets": [n for n in os.listdir("/proc/self/fd") if n != "2" and
                    os.path.islink("/proc/self/fd/" + n) and
                    "socket" in os.readlink("/proc/self/fd/" + n)],
        "capabilities": status["CapEff"].strip(),
        "lock": held(),
    }), flush=True)
    os._exit(0)
if os.fork() == 0:
    ours.close()
    init.run(lambda: confine.apply({"rlimits": {}}), check, theirs.fileno(),
             alone=False, keep=[int(sys.argv[2])])
theirs.close()
while "status" not in json.loads(ours.recv(4096)):
    pass
"""


class WarmPathTest(SimpleTestCase):
    """What an exec does for a cold check, the jail has to do for a forked one."""

    def test_a_forked_check_has_no_socket_no_lock_and_no_capability(self) -> None:
        with tempfile.TemporaryFile() as file:
            number = file.fileno()
            done = subprocess.run(
                [sys.executable, "-c", FORKED, str(view.JAIL), str(number)],
                pass_fds=[number],
                capture_output=True,
                text=True,
                timeout=60,
            )
        self.assertTrue(done.stdout, done.stderr)
        found = json.loads(done.stdout)
        self.assertEqual(found["sockets"], [])
        self.assertRegex(found["capabilities"], "^0+$")
        self.assertFalse(found["lock"])


class CgroupTest(SimpleTestCase):
    def setUp(self) -> None:
        groups = jails.capabilities().cgroups
        if groups is None:
            self.skipTest("this process cannot make cgroups")
        self.group = groups.create(64, 20)
        self.addCleanup(self.group.remove)

    def in_group(self, code: str) -> jails.Ended:
        entering = self.group.entry_fds()
        try:
            return inside(here(), code, cgroup=tuple(entering))
        finally:
            for number in entering:
                os.close(number)

    def test_memory_has_an_end_and_the_kernel_says_so(self) -> None:
        ended = self.in_group("x = bytearray(256 << 20)\nsay(survived=True)")
        self.assertEqual((ended.said, ended.report["status"]), ({}, 9), ended)
        self.assertEqual(self.group.limit_hit(), "limit:memory")

    def test_processes_have_an_end_and_the_kernel_says_so(self) -> None:
        self.assertIsNone(self.group.limit_hit())
        ended = self.in_group(
            """
            count = 0
            try:
                while count < 60:
                    if os.fork() == 0:
                        time.sleep(600)
                    count += 1
            except OSError:
                pass
            say(count=count)
            """
        )
        self.assertLess(ended.said["count"], 20, ended)
        self.assertEqual(self.group.limit_hit(), "limit:processes")

    def test_a_group_goes_with_what_is_in_it(self) -> None:
        stop = threading.Event()
        self.addCleanup(stop.set)
        pid = os.posix_spawn("/bin/sleep", ["sleep", "600"], {})
        threading.Thread(target=os.waitpid, args=(pid, 0), daemon=True).start()
        for number in self.group.entry_fds():
            os.write(number, str(pid).encode())
            os.close(number)
        self.group.remove()
        self.assertFalse(any(path.exists() for path in self.group.paths()))
