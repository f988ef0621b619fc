"""Of which functions of a file somebody takes the gradient, as far as the file shows.

Backward, `forward` and losses ask for one; what they mention is asked with them. What
measures, loads or steps is asked for none, nor is what only such code mentions.
"""

from __future__ import annotations

import ast
import functools
import re
from typing import Any, Dict, Iterator, List, Optional, Sequence, Set

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
FORWARDS = ("forward", "training_step", "log_prob", "closure")
LOSS = re.compile(r"[Ll]oss(?:es)?(?![a-z])|[Cc]riterion")
BACKWARDS = frozenset([".backward", ".autograd"])
NO_GRADIENT = ("no_grad", "inference_mode")
# Bases of classes that see data, measure, draw or step.
UNTRAINED = re.compile(
    r"(?:Dataset|Metric|Callback|Optimizer|Sampler|LogitsProcessor|Augment\w*|Loader"
    r"|DataModule|Evaluator|Cost|Matcher|Assigner|TestCase|BaseTransform|MapTransform"
    r"|^Function|^Frozen\w*)$"
)
# What code calls numbers that no gradient is asked of: what it is told to come to, what
# was drawn, and where a camera looks.
GIVEN = re.compile(
    r"(?:\w*_)?(?:gt|targets?|labels?|truth|actions)(?:_[23]d)?|gt_\w+|y_true"
    r"|rays?(?:_\w+)?"
)
# Packages of arrays and pictures: a file with them may only look at numbers.
ARRAYS = re.compile(
    r"(?:numpy|scipy|sklearn|pandas|cv2|PIL|matplotlib|skimage|unittest|pytest)\b"
    r"|.*metrics?(?![a-z_]*learning)|.*\bplot"
)
# A file with these and no torch only draws.
DRAWING = re.compile(r"(?:matplotlib|seaborn|plotly|bokeh|altair|networkx)\b")
# What is asked for: nothing by what it is; nothing, as far as the file shows;
# something, by what the file leaves open; surely something.
BLOCKED, NEVER, MAYBE, SEEN = range(4)


class Function:
    """A function of the file, with the names that it mentions outside no_grad."""

    def __init__(self, node: Any, owner: Optional[ast.ClassDef], file: File) -> None:
        self.node, self.name, self.owner = node, str(node.name), owner
        # What a mention of it looks like.
        self.mention = "." + self.name if owner is not None else self.name
        # Methods as ".name".
        self.mentions = set(mentioned(node))
        parts = list(ast.walk(node))
        self.said = {getattr(x, "id", "." + getattr(x, "attr", "")) for x in parts}
        if self.name == "__init__":
            # What it calls at once makes weights; what it keeps is called later.
            calls = [x.func for x in parts if isinstance(x, ast.Call)]
            self.mentions -= {getattr(x, "id", "") for x in calls}
        self.bases = file.bases_of(owner) if owner is not None else []
        self.is_blocked = any(map(UNTRAINED.search, self.bases)) or any(
            set(names_in(part)) & set(NO_GRADIENT) for part in node.decorator_list
        )

    @property
    def is_asked(self) -> bool:
        """Whether it takes a gradient, or others do by what it is."""
        if self.is_blocked:
            return False
        is_loss = LOSS.search(self.name) or any(map(LOSS.search, self.bases))
        is_forward = bool(self.owner) and self.name in FORWARDS
        return bool(is_loss) or is_forward or bool(self.mentions & BACKWARDS)

    def is_open(self, others: bool) -> bool:
        """Whether others than the file may call it, and train through it; `others`:
        what no class says of a function."""
        # A method that begins with an underline is for its own class.
        is_own = self.mention.startswith("._") and self.name != "__call__"
        is_layer = "Module" in self.bases
        return not self.is_blocked and not is_own and (is_layer or others)


class File:
    def __init__(self, tree: ast.Module, is_alone: bool) -> None:
        self.classes = {x.name: x for x in tree.body if isinstance(x, ast.ClassDef)}
        self.functions = list(self.found_in(tree.body, None))
        # Of a paste or a script nothing more is shown than what it computes.
        self.is_whole = not is_alone or any(map(ARRAYS.match, imported(tree)))

    def found_in(
        self, body: Sequence[Any], owner: Optional[ast.ClassDef]
    ) -> Iterator[Function]:
        for node in body:
            if isinstance(node, FUNCTIONS):
                yield Function(node, owner, self)
            # A function of a function is called by its name.
            nested = None if isinstance(node, FUNCTIONS) else owner
            nested = node if isinstance(node, ast.ClassDef) else nested
            yield from self.found_in(
                [x for x in ast.iter_child_nodes(node) if isinstance(x, ast.stmt)],
                nested,
            )

    def bases_of(self, cls: ast.ClassDef, depth: int = 0) -> List[str]:
        """Its name and those of its bases, as far as the file has them."""
        found = [cls.name]
        for base in cls.bases:
            name = list(names_in(base))[-1:]
            parent = self.classes.get(name[0]) if name else None
            if parent is not None and parent is not cls and depth < 8:
                found += self.bases_of(parent, depth + 1)
            else:
                found += name
        return found

    def degrees(self) -> Dict[int, int]:
        """Of each function NEVER, MAYBE or SEEN; by 0, of the file's own statements."""
        asked = [one for one in self.functions if one.is_asked]
        found = dict.fromkeys(self.reached(asked), SEEN)
        said = {x for one in self.functions for x in one.said - {one.mention}}
        others = not self.is_whole and not any(x.is_blocked for x in self.functions)
        free = [
            x for x in self.functions if x.is_open(others) and x.mention not in said
        ]
        found = {**dict.fromkeys(self.reached(free), MAYBE), **found}
        blocked = {id(x.node): BLOCKED for x in self.functions if x.is_blocked}
        never = {id(x.node): NEVER for x in self.functions}
        return {0: NEVER if self.is_whole else MAYBE, **never, **found, **blocked}

    def reached(self, starts: List[Function]) -> Set[int]:
        """These and what they mention, by its name."""
        named: Dict[str, List[Function]] = {}
        for one in self.functions:
            if not one.is_blocked:
                named.setdefault(one.mention, []).append(one)
        seen: Set[int] = set()
        pending = list(starts)
        while pending:
            one = pending.pop()
            if id(one.node) not in seen:
                seen.add(id(one.node))
                for name in one.mentions:
                    pending += named.get(name, [])
        return seen


@functools.lru_cache(maxsize=8)  # of a repro each function is read for each rule
def degrees_of(tree: ast.Module, is_alone: bool) -> Dict[int, int]:
    """`is_alone`: it is no module of a package, whose other files may use it."""
    return File(tree, is_alone).degrees()


def only_draws(tree: ast.Module) -> bool:
    names = set(imported(tree))
    is_torch = any(name.partition(".")[0] == "torch" for name in names)
    return not is_torch and any(map(DRAWING.match, names))


def names_in(node: ast.AST) -> Iterator[str]:
    """Of torch.nn.Module "torch", "nn", "Module"; in no order where it is a call."""
    for part in reversed(list(ast.walk(node))):
        if isinstance(part, ast.Attribute):
            yield part.attr
        elif isinstance(part, ast.Name):
            yield part.id


def mentioned(node: ast.AST) -> Iterator[str]:
    """Names, ".name" of what is read off something; nothing of blocks under no_grad."""
    for part in ast.iter_child_nodes(node):
        if isinstance(part, ast.With) and any(
            set(names_in(item.context_expr)) & set(NO_GRADIENT) for item in part.items
        ):
            continue
        if isinstance(part, ast.Attribute):
            yield "." + part.attr
        elif isinstance(part, ast.Name):
            yield part.id
        yield from mentioned(part)


def imported(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from ("%s.%s" % (node.module or "", x.name) for x in node.names)
