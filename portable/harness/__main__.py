"""`python portable/harness REPRO.py`: the harness as a program.

Any Python can read this file, so that an old one exits with a sentence: a traceback
would exit with 1, which means bug_present.
"""

import os
import sys

if sys.version_info < (3, 8):
    sys.stderr.write("harness: needs Python 3.8 or newer\n")
    sys.exit(2)


def package():
    """This folder as a package by its path: a check may not list the folder above."""
    here = os.path.dirname(os.path.abspath(__file__))
    spec = importlib.util.spec_from_file_location(
        "harness", os.path.join(here, "__init__.py"), submodule_search_locations=[here]
    )
    found = sys.modules["harness"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


if __name__ == "__main__":
    import importlib.util  # Old Pythons, which read so far, have no such module.

    # Python put this folder first; its modules must hide none of the repro's.
    del sys.path[0]
    sys.exit(package().main())
