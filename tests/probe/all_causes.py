"""Every cause of causes.py in one kind of loop: python all_causes.py FOLDER KIND.

FOLDER is where nan_probe lies. Prints JSON: cause -> the report, by default settings.
"""

import io
import json
import sys

import torch

sys.path.insert(0, sys.argv[1])
import causes
from nan_probe.session import Session
from nan_probe.trainers import Finder


def report_of(kind, cause):
    torch.manual_seed(0)
    said = io.StringIO()
    if kind == "step":
        sys.stderr, error = said, sys.stderr
        try:
            causes.by_step(cause)
        finally:
            sys.stderr = error
        return said.getvalue()
    with Session(file=said) as session:
        getattr(causes, kind)(cause)
    return session.report()


if __name__ == "__main__":
    sys.meta_path.insert(0, Finder())
    stdout, sys.stdout = sys.stdout, sys.stderr
    found = {cause: report_of(sys.argv[2], cause) for cause in causes.CAUSES}
    json.dump(found, stdout)
