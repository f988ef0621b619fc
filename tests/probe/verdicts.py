"""What captures say on this torch: python verdicts.py FOLDER CAPTURE... prints JSON.

FOLDER is where nan_probe lies. Nothing but torch; the syntax of 3.8.
"""

from __future__ import annotations

import json
import sys

import torch

sys.path.insert(0, sys.argv[1])
from nan_probe import captures

if __name__ == "__main__":
    said = [captures.outcome(captures.read(path))["status"] for path in sys.argv[2:]]
    print(json.dumps({"torch": torch.__version__, "said": said}))
