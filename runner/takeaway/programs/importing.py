# mypy: ignore-errors
# The end of nan_probe.py: the modules that stand above as texts, as one package.

import hashlib
import importlib.abc
import importlib.util
import sys

PACKAGE = __name__ if __name__ != "__main__" else "nan_probe"


class Parts(importlib.abc.ExecutionLoader):
    """Finds and loads the modules of this file."""

    @staticmethod
    def part_of(name):
        if name == PACKAGE:
            return "__init__.py"
        start, _, rest = name.partition(PACKAGE + ".")
        return "" if start else rest + ".py"

    def find_spec(self, name, path=None, target=None):
        if self.part_of(name) not in PARTS:
            return None
        package = name == PACKAGE
        return importlib.util.spec_from_loader(name, self, is_package=package)

    def get_filename(self, name):
        return __file__ + "/" + self.part_of(name)

    def get_source(self, name):
        """Also for lines of tracebacks."""
        return PARTS[self.part_of(name)]


def load():
    for name, text in PARTS.items():
        if "sha256:" + hashlib.sha256(text.encode()).hexdigest() != DIGESTS[name]:
            raise ImportError("%s of this copy differs: download it again" % name)
    parts = Parts()
    sys.meta_path.insert(0, parts)
    package = importlib.util.module_from_spec(parts.find_spec(PACKAGE))
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
