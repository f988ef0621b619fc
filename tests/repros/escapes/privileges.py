"""Becomes another user, by calls and by programs that are allowed to."""

import os
import subprocess


def status():
    with open("/proc/self/status") as file:
        return dict(line.rstrip("\n").split(":\t", 1) for line in file if ":\t" in line)


def trigger():
    found = []
    before = os.getresuid()
    for number in (0, 1, 65534):
        for call in (os.setgid, os.setuid):
            child = os.fork()
            if not child:
                try:
                    call(number)
                    os._exit(1)
                except OSError:
                    os._exit(0)
            if os.waitpid(child, 0)[1] and number not in before:
                found.append("%s %d" % (call.__name__, number))
    for program in ("/bin/su", "/bin/mount", "/usr/bin/passwd", "/usr/bin/newgrp"):
        if os.path.exists(program):
            line = subprocess.run(
                [program, "--help"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL
            )
            print(program, line.returncode)
    fields = status()
    if int(fields["CapEff"], 16):
        found.append("capabilities " + fields["CapEff"])
    if fields.get("NoNewPrivs") != "1":
        found.append("new privileges")
    if fields.get("Seccomp") != "2":
        found.append("no filter of system calls")
    return {"reached": len(found), "ran": ", ".join(found)}
