"""Prints, as JSON, the error texts and the prose of an installed torch's sources.

Runs under a build's own Python: standard library only. `templates`: [class, literal
pieces between the holes, file]; `sentences`: of docstrings.
"""

import ast
import importlib.util
import json
import pathlib
import re
import sys

SENTENCE = re.compile(r"[A-Z][^.:`>\n]{40,160}\.")


def pieces_of(node):
    """The literal parts of a text with holes; None for what is none."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return [node.value]
    if isinstance(node, ast.JoinedStr):
        found = [""]
        for part in node.values:
            if isinstance(part, ast.Constant):
                found[-1] += part.value
            else:
                found.append("")
        return found
    return None


def templates_in(tree, path):
    for node in ast.walk(tree):
        call = node.exc if isinstance(node, ast.Raise) else node
        if not isinstance(call, ast.Call) or not call.args:
            continue
        name = getattr(call.func, "id", getattr(call.func, "attr", ""))
        kind = "UserWarning" if name == "warn" else name
        pieces = pieces_of(call.args[0])
        if pieces and kind.endswith(("Error", "Warning")) and len("".join(pieces)) > 30:
            yield kind, pieces, path


def sentences_in(tree):
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)):
            text = " ".join((ast.get_docstring(node) or "").split())
            yield from SENTENCE.findall(text)


def main():
    root = pathlib.Path(importlib.util.find_spec("torch").origin).parent
    templates, sentences = [], {}
    for path in sorted(root.rglob("*.py")):
        text = path.read_text("utf-8", "replace")
        if "testing" in path.parts or ("raise " not in text and "warn(" not in text):
            continue
        tree = ast.parse(text)
        templates += templates_in(tree, str(path.relative_to(root.parent)))
        sentences.update(dict.fromkeys(sentences_in(tree)))
    json.dump({"templates": templates, "sentences": list(sentences)}, sys.stdout)


if __name__ == "__main__":
    main()
