# mypy: ignore-errors
# The end of every file that users take away: checks what stands above, lays it into a
# folder of its own and starts the program. Any Python can read it, so that an old one
# ends with a sentence, not with status 1, which would read as "bug present".

import os
import sys

# A file of the user's called types.py must not become a part of this.
HERE = os.path.dirname(os.path.abspath(sys.argv[0]))
sys.path[:] = [p for p in sys.path if p and os.path.abspath(p) != HERE]

# git bisect takes 2 for "bad"; what is above 127 stops it.
TROUBLE = 255 if "--bisect" in sys.argv else 2


def changed_parts():
    import hashlib  # only after the version is known to have it

    found = []
    for name in sorted(DIGESTS):
        data = PARTS.get(name, "").encode("utf-8")
        if "sha256:" + hashlib.sha256(data).hexdigest() != DIGESTS[name]:
            found.append(name)
    return found


def refuse(*lines):
    sys.stderr.write("\n".join(lines) + "\n")
    return TROUBLE


def run_parts():
    import io
    import shutil
    import tempfile

    if hasattr(sys.stderr, "reconfigure"):
        sys.stderr.reconfigure(encoding="utf-8", errors="replace")
    changed = changed_parts()
    if changed:
        return refuse(
            "This copy is not what was reviewed: %s differs. Download the file again."
            % ", ".join(changed),
            "此副本与审核过的内容不符：%s 已被改动。请重新下载。" % ", ".join(changed),
        )
    folder = tempfile.mkdtemp(prefix="doesitnan-")
    try:
        for name in PARTS:
            path = os.path.join(folder, *name.split("/"))
            if not os.path.isdir(os.path.dirname(path)):
                os.makedirs(os.path.dirname(path))
            with io.open(path, "wb") as file:
                file.write(PARTS[name].encode("utf-8"))
        sys.dont_write_bytecode = True
        sys.path.insert(0, folder)
        return __import__(PROGRAM).main(folder, sys.argv[1:])
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def start():
    if sys.version_info < (3, 8):
        return refuse("needs Python 3.8 or newer")
    try:
        return run_parts()
    except KeyboardInterrupt:
        sys.stderr.write("interrupted\n")
    except Exception:
        import traceback

        traceback.print_exc()
    return TROUBLE


if __name__ == "__main__":
    sys.exit(start())
