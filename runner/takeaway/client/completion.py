"""`doesitnan completion SHELL`: what a shell needs to complete the commands.

The options of a command are those that its own help names, so none is kept here.
"""

import argparse
import re
import subprocess
import sys
from typing import Any, Dict, List

from . import carried

SHELLS = ("bash", "zsh", "fish")
OPTION = re.compile(r"(?m)^  (?:-\w(?: \w+)?, )?(--[a-z][\w-]*)")
OF_RECORDS = ("run", "bisect")

BASH = """\
_doesitnan() {
  local words=""
  if [ "$COMP_CWORD" -eq 1 ]; then
    words="%(commands)s"
  else
    case "${COMP_WORDS[1]}" in
%(cases)s
    esac
  fi
  COMPREPLY=($(compgen -W "$words" -- "${COMP_WORDS[COMP_CWORD]}"))
}
complete -o default -F _doesitnan doesitnan
"""
ZSH = """\
#compdef doesitnan
_doesitnan() {
  local -a offered
  if (( CURRENT == 2 )); then
    offered=(%(commands)s)
  else
    case "${words[2]}" in
%(cases)s
    esac
  fi
  compadd -- $offered
  (( CURRENT == 2 )) || _files
}
# Found in a folder of $fpath, this file is read at the first key and has to answer it.
if [[ "${funcstack[1]}" == _doesitnan ]]; then
  _doesitnan "$@"
else
  compdef _doesitnan doesitnan
fi
"""


def main(arguments: List[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="doesitnan completion",
        description="Print what completes doesitnan in a shell. / 输出补全脚本。",
        epilog="bash: doesitnan completion bash > "
        "~/.local/share/bash-completion/completions/doesitnan; zsh: into a folder of "
        "$fpath as _doesitnan; fish: into ~/.config/fish/completions/doesitnan.fish.",
    )
    parser.add_argument("shell", choices=SHELLS)
    shell = parser.parse_args(arguments).shell
    offered = offers()
    writers: Any = {"bash": bash, "zsh": zsh, "fish": fish}
    sys.stdout.write(writers[shell](offered))
    return 0


def offers() -> Dict[str, List[str]]:
    """Each command -> the words that may follow it."""
    from .cli import COMMANDS  # it imports this module for its own table

    found = {name: options_of(name) for name in COMMANDS}
    for name in OF_RECORDS:
        found[name] = carried.records() + found[name]
    found["completion"] += SHELLS
    return found


def options_of(name: str) -> List[str]:
    # In a process of its own: programs that are carried share names of modules.
    done = subprocess.run(
        [sys.executable, "-m", "doesitnan", name, "--help"],
        stdout=subprocess.PIPE,
        check=True,
    )
    return sorted(set(OPTION.findall(done.stdout.decode("utf-8", "replace"))))


def bash(offered: Dict[str, List[str]]) -> str:
    cases = [
        '      %s) words="%s" ;;' % (name, " ".join(words))
        for name, words in offered.items()
    ]
    return BASH % {"commands": " ".join(offered), "cases": "\n".join(cases)}


def zsh(offered: Dict[str, List[str]]) -> str:
    cases = [
        "      %s) offered=(%s) ;;" % (name, " ".join(words))
        for name, words in offered.items()
    ]
    return ZSH % {"commands": " ".join(offered), "cases": "\n".join(cases)}


def fish(offered: Dict[str, List[str]]) -> str:
    head = "complete -c doesitnan -n __fish_use_subcommand -f -a '%s'"
    lines = [head % " ".join(offered)]
    for name, words in offered.items():
        here = "complete -c doesitnan -n '__fish_seen_subcommand_from %s'" % name
        lines += [
            "%s -l %s" % (here, word[2:]) for word in words if word.startswith("--")
        ]
        plain = [word for word in words if not word.startswith("--")]
        if plain:
            lines.append("%s -a '%s'" % (here, " ".join(plain)))
    return "\n".join(lines) + "\n"
