"""Changes rights by access control lists: chmod by another name."""

import os
import struct
import sysconfig


READ_WRITE, READ = 6, 4
OWNER, GROUP, OTHERS, NOBODY = 1, 4, 32, 0xFFFFFFFF
# What a mode of 0644 is, as a list.
ENTRIES = ((OWNER, READ_WRITE), (GROUP, READ), (OTHERS, READ))
LIST = struct.pack("<I", 2) + b"".join(
    struct.pack("<HHI", tag, rights, NOBODY) for tag, rights in ENTRIES
)


def trigger():
    found = []
    own = os.path.join(sysconfig.get_path("purelib"), "torch.py")
    for path in [*TARGETS.get("own_files", []), own]:
        for name in ("system.posix_acl_access", "system.posix_acl_default"):
            try:
                os.setxattr(path, name, LIST)
            except OSError:
                continue
            found.append("%s %s" % (name, path))
    return {"reached": len(found), "ran": " ".join(found)[:4000]}
