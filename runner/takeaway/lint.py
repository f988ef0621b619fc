"""The linter: the rules of every published record and what reads them, in one file."""

from __future__ import annotations

import json

from kb.publishing.rules import published_rules
from runner.takeaway.bundle import Carrier, carried_modules, modules_of, program

# They read the rules of a checkout.
NOT_CARRIED = ("__init__.py", "__main__.py", "checkout.py")


class Linter(Carrier):
    """Carries `kb.rules` as it is, which needs neither Django nor torch."""

    program = "lint"
    notes = (
        "Which traps of known training failures does this code have?",
        "这份代码里有哪些已知训练故障的写法？",
        "python lint.py PATH... [--format text|json|sarif] [--lang zh]",
        "Reads Python source by the rules of reviewed records; nothing is run, "
        "nothing is sent.",
        "按已审核记录的规则读取 Python 源码，不运行、不上传任何内容。",
        "Exit: 0 nothing found, 1 something found, 2 wrong usage.",
    )
    dependencies = ()

    def parts(self) -> dict[str, str]:
        rules = json.dumps(published_rules(), ensure_ascii=False, indent=1)
        return {
            "rules.json": rules + "\n",
            "lint.py": program("lint"),
            **carried_modules(modules_of("kb/rules", but=NOT_CARRIED)),
        }


def lint() -> str:
    """The whole text; it reads source and sends nothing."""
    return Linter().text()
