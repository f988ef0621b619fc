# mypy: ignore-errors
# The end of nan_probe.py: the modules that stand above as texts, as one package.

import hashlib
import importlib.machinery
import importlib.util
import sys

PACKAGE = __name__ if __name__ != "__main__" else "nan_probe"


class Parts:
    """Finds and loads the modules of this file."""

    @staticmethod
    def part_of(name):
        if name == PACKAGE:
            return "__init__.py"
        return name.replace(PACKAGE + ".", "", 1) + ".py"

    @classmethod
    def find_spec(cls, name, path=None, target=None):
        if name != PACKAGE and not name.startswith(PACKAGE + "."):
            return None
        part = cls.part_of(name)
        if part not in PARTS:
            return None
        spec = importlib.machinery.ModuleSpec(
            name, cls, origin=__file__ + "/" + part, is_package=name == PACKAGE
        )
        spec.has_location = True
        return spec

    @staticmethod
    def create_module(spec):
        return None

    @classmethod
    def exec_module(cls, module):
        code = compile(cls.get_source(module.__name__), module.__file__, "exec")
        exec(code, module.__dict__)

    @classmethod
    def get_source(cls, name):
        """For lines of tracebacks."""
        return PARTS[cls.part_of(name)]


def load():
    for name, text in PARTS.items():
        if "sha256:" + hashlib.sha256(text.encode()).hexdigest() != DIGESTS[name]:
            raise ImportError("%s of this copy differs: download it again" % name)
    sys.meta_path.insert(0, Parts)
    package = importlib.util.module_from_spec(Parts.find_spec(PACKAGE))
    sys.modules[PACKAGE] = package
    package.__spec__.loader.exec_module(package)


load()
if __name__ == "__main__":
    if importlib.util.find_spec("torch") is None:
        sys.stderr.write(
            "%s has no torch: use the Python of your training / 此 Python 没有 torch\n"
            % sys.executable
        )
        sys.exit(2)
    sys.exit(importlib.import_module(PACKAGE + ".launch").main(sys.argv[1:]))
