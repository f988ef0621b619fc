"""Lets other programs, threads and children change the rights."""

import os
import subprocess
import sysconfig
import threading


PROGRAMS = (
    ("/bin/chmod", "--reference={0}", "{0}"),
    ("/bin/chown", "--reference={0}", "{0}"),
    ("/usr/bin/touch", "--no-create", "--reference={0}", "{0}"),
    ("/usr/bin/chattr", "-d", "{0}"),
    ("/bin/sh", "-c", "exec chmod --reference=$0 $0", "{0}"),
)


def succeeds(path):
    try:
        os.chmod(path, os.stat(path).st_mode & 0o7777)
    except OSError:
        return False
    return True


def trigger():
    found = []
    for path in [*TARGETS.get("own_files", []), sysconfig.get_path("purelib")]:
        if not os.path.exists(path):
            continue
        for program, *arguments in PROGRAMS:
            if os.path.exists(program):
                line = [program, *(text.format(path) for text in arguments)]
                if subprocess.run(line, stderr=subprocess.DEVNULL).returncode == 0:
                    found.append(" ".join(line))
        inside = []
        thread = threading.Thread(target=lambda: inside.append(succeeds(path)))
        thread.start()
        thread.join()
        child = os.fork()
        if not child:
            os._exit(int(succeeds(path)))
        if inside[0] or os.waitpid(child, 0)[1]:
            found.append("thread or child " + path)
    return {"reached": len(found), "ran": " ".join(found)[:4000]}
