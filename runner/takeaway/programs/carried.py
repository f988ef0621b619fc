"""What the single file and the doctor share: their repros, and words for results.

`manifest.json`, written by `takeaway.bundle`, names the repros and holds the wording.
"""

import importlib
import json
import os
import shutil
import sys
import textwrap
from typing import Any, Callable, Dict, List, Optional

# Its neighbour in the folder it is laid into, not the site's.
harness: Any = importlib.import_module("portable.harness")

Json = Dict[str, Any]
LANGS = ("en", "zh")


def add_language(parser: Any) -> None:
    parser.add_argument(
        "--lang",
        choices=LANGS,
        default=language(),
        help="language of the output / 输出语言",
    )


def read_manifest(folder: str) -> Json:
    with open(os.path.join(folder, "manifest.json"), "rb") as file:
        found: Json = json.loads(file.read().decode("utf-8"))
        return found


def source_of(folder: str, repro: Json) -> str:
    with open(path_of(folder, repro), "rb") as file:
        return file.read().decode("utf-8")


def path_of(folder: str, repro: Json) -> str:
    return os.path.join(folder, *repro["path"].split("/"))


def run(
    folder: str,
    repro: Json,
    python: str,
    trials: Optional[int] = None,
    parameters: Optional[Json] = None,
    on_event: Optional[Callable[[str, str], None]] = None,
    cancelled: Optional[Callable[[], bool]] = None,
    forks: Any = None,
    quick: bool = False,
) -> Json:
    """The evidence of one repro under `python`; raises what `harness.drive` does.

    `forks`: `harness.Forks` of that Python, which several repros share.
    """
    start = harness.start_plain(
        python,
        path_of(folder, repro),
        cancelled=cancelled,
        fork=(forks or harness.Forks(python)).start,
    )
    evidence: Json = harness.drive(
        source_of(folder, repro),
        start,
        name=repro["name"],
        record=repro["record"],
        trials=trials,
        parameters=parameters,
        on_event=on_event,
        cancelled=cancelled,
        quick=quick,
    )
    return evidence


def say(text: str = "") -> None:
    """A line of the result; ends the program where nobody reads on (`| head`)."""
    follow("")
    try:
        sys.stdout.write(text + "\n")
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(2)


def tell(text: str) -> None:
    """A line beside the result."""
    follow("")
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


def follow(text: str) -> None:
    """What goes on now, on a terminal: one line, written over until another comes."""
    if sys.stderr.isatty():
        # Most letters of Chinese are two columns wide.
        most = shutil.get_terminal_size().columns // (1 if text.isascii() else 2)
        sys.stderr.write("\r\x1b[K" + text[: most - 1])
        sys.stderr.flush()


def language() -> str:
    """What the user's locale asks for."""
    names = map(os.environ.get, ("LC_ALL", "LC_MESSAGES", "LANG"))
    return "zh" if next(filter(None, names), "").startswith("zh") else "en"


def write(path: str, text: str) -> None:
    """Whole or not at all, also for who reads it meanwhile."""
    part = path + ".part"
    with open(part, "w", encoding="utf-8") as file:
        file.write(text + "\n")
    os.replace(part, path)


# --- words ----------------------------------------
def position(order: List[str], name: str) -> int:
    return order.index(name) if name in order else len(order)


def workaround_lines(
    words: Json,
    evidence: Json,
    lang: str,
    titles: Json,
    indent: str = "",
    code: Optional[Json] = None,
    costs: Optional[Json] = None,
) -> None:
    """Each workaround with its status, on one line, called by its title.

    `code`: of each by name; of those that helped it is shown. `costs`: of each by
    name, in the order in which to try them.
    """
    order = list(costs or ())
    found = evidence["workarounds"]
    for name in sorted(found, key=lambda name: (position(order, name), name)):
        status = found[name]
        shape, text = words["workarounds"][status]
        title = titles[name][lang] if name in titles else name
        say(indent + "%s %s: %s" % (shape, text[lang], title))
        if status == "verified" and costs and name in costs:
            say(indent + "    " + str(costs[name][lang]))
        if status == "verified" and code and name in code:
            say(textwrap.indent(code[name], indent + "    "))
