# timeout_s = 30
"""Makes empty files for ever, at most 20,000."""

import os
import tempfile


def trigger():
    folder = tempfile.mkdtemp()
    made = 0
    try:
        for _ in range(20000):
            os.close(os.open("%s/%d" % (folder, made), os.O_CREAT | os.O_WRONLY))
            made += 1
    except OSError as error:
        print("after", made, error)
    return {"reached": int(made == 20000), "made": made}
