"""The texts of a new record: valid as a draft, with a mark at every open place.

`@NAME@` is filled in by `runner.authoring.skeleton`. The words that a key may have
come from the vocabularies themselves.
"""

FACTS = """\
# The facts, each once, in both languages where a reader sees them. What is marked is
# yours to write; `manage.py check_record` lists what is left. Notes such as this one
# go once nothing is: `manage.py check_record --format` removes them. Every key is
# described in docs/records.md.
schema = 1
id = "@ID@"
slug = "@SLUG@"
# @PUBLICATION@. A draft is loaded, but shown to editors only.
publication = "draft"
# What the project says of it: @UPSTREAM@.
upstream = "unknown"
# What one sees: @SYMPTOM_CLASS@.
symptom_class = "nan_forward"  # TODO: choose the class, then delete this note
# Topics in lower case, such as "sdpa", "autograd", "inductor".
components = ["todo_topic"]
# Its names elsewhere, such as "pytorch/pytorch#196678"; each is of one record only.
aliases = [@ALIASES@]
# Other records, such as "NAN-0007".
related = []
# One line each: the symptom first, then when it happens.
title = {en = "TODO: title", zh = "TODO：标题"}
symptom = {en = "TODO: what one sees, in one sentence.", zh = "TODO：用一句话说明。"}
# As reported, literally: "torch 2.4.0+cu121", "A800 80GB".
environment = []
# Of several [[affected]] tables: @AFFECTED_WHEN@.
affected_when = "any"

# What must hold for it to happen. key: @PRECONDITION_KEYS@. Delete it if nothing must.
# [[precondition]]
# key = "dtype"
# value = "bf16"
# where = "dtype = bfloat16"
# text = {en = "Only in bf16.", zh = "仅在 bf16 下。"}

# How it shows in a log, literally; what differs from run to run may stand as printed.
# kind: @SIGNATURE_KINDS@. message is compared by its telling words, code word for word,
# frame is a file of a traceback, facet the name of a symptom such as grad_norm_nan.
# A message or a code was seen: @SIGNATURE_SEEN@. printed is what the repro's trigger
# prints, as check_record sees; reported names the [[source]] in which the line stands.
# The title of a thread is no line of a log: readers find it as the title of a source.
[[signature]]
kind = "message"
text = "TODO: one literal line of a real log, such as RuntimeError: …"
seen = "reported"
source = "report"

# Where it is affected, as far as somebody knows; delete it where nobody does.
# An event is {introduced = …}, {fixed = …} or {last_affected = …}; they ascend.
# builds are single ones, state: @BUILD_STATES@. source is the id of a [[source]].
# [[affected]]
# package = "torch"
# events = [{introduced = "2.5.0"}, {fixed = "2.6.0"}]
# builds = [{raw = "2.6.0a0+df5bbc09d1.nv24.12", state = "affected"}]
# source = "report"

# How it was mended. kind: @FIX_KINDS@. version "" where no release has it yet.
# [[fix]]
# kind = "root_fix"
# package = "torch"
# version = "2.6.0"
# source = "report"

# What helps: apply_<name> in repro.py is the code that is copied, workaround_<name>
# runs it, ### <name> in the articles explains it. kind: @WORKAROUND_KINDS@. What is no
# code has apply = "…" in place of that function, copied literally. needs may be "".
[[workaround]]
name = "todo_name"
kind = "code"
needs = ""
cost = {en = "TODO: what it costs.", zh = "TODO：代价是什么。"}

# Code of at most ten lines that is true for who has the bug: diagnose_<name> in
# repro.py, called by control and trigger. Delete it where a message says enough.
# [[diagnosis]]
# name = "hidden_row"
# text = {en = "Call it on the mask. True: …", zh = "对掩码调用它。为真：……"}

# What a source says, and the check that executes it. kind: @CLAIM_KINDS@.
# expects, what the check shows if the claim is true: @EXPECTS@. builds: slugs such as
# "2.13.0-cpu", or "*" for every build. A claim that nothing executes has none of these.
[[claim]]
id = "c1"
kind = "cause"
text = {en = "TODO: what the source says.", zh = "TODO：来源的说法。"}
source = "report"
check = "repro:trigger"
expects = "bug"
builds = ["*"]

# Where it comes from. kind: @SOURCE_KINDS@. date = "2025-03-20" and
# note = {en = "…", zh = "…"} may be added.
[[source]]
id = "report"
kind = "report"
url = "@URL@"
title = "@TITLE@"

# What the trap looks like in Python source, where that can be seen: it has to fire in
# trigger, and to be silent in control and every apply_. severity: @RULE_SEVERITIES@.
# [[rule]]
# name = "todo_name"
# severity = "warning"
# message = {en = "TODO: what it does; what to write", zh = "TODO：后果与改法"}
# step = [{event = ["torch.todo"], with = {"input@0" = {dtype = ["float16"]}}}]
# never_after = [".todo"]
# fix = {argument = "todo", value = "False"}

# What each workaround_<name> and refuted_<name> does, in a few words that also read
# well before a colon: "Scores computed in float32: the bug is gone".
[[check]]
name = "workaround_todo_name"
text = {en = "TODO: what it does", zh = "TODO：做了什么"}
"""
ENGLISH = """\
## Symptom

```log
TODO: literal lines of a real log, the same in both articles
```

TODO: what one sees, and what one does not see.

## Environment

TODO: on which devices, types and versions, and what is not known.

## Root cause

TODO: why it happens, or: Not established.

## Workarounds

### todo_name

```python
apply_todo_name
```

TODO: where to call it, and why it helps.

## Fix

TODO: what was changed upstream and since when, or: No fix is known.
"""
CHINESE = """\
## 现象

```log
TODO: literal lines of a real log, the same in both articles
```

TODO：能看到什么，看不到什么。

## 环境

TODO：涉及哪些设备、类型和版本，哪些尚不清楚。

## 根因

TODO：为什么会发生，或写：未确定。

## 规避方法

### todo_name

```python
apply_todo_name
```

TODO：在哪里调用，为什么有效。

## 修复

TODO：上游改了什么、从哪个版本起，或写：尚无已知修复。
"""
REPRO = '''\
# /// script
# requires-python = ">=3.9"
# dependencies = ["torch>=2.0"]
# [tool.doesitnan]
# record = "@ID@"
# fidelity = "upstream_bug"  # TODO: one of @FIDELITY@
# device = "cpu"  # TODO: one of @DEVICE@
# bug = "nonfinite > 0"
# match = {norm = 1e-6}
# ///
"""TODO: what this shows, in one sentence."""

import torch


def compute(is_triggered, before=lambda x: x):
    """TODO: the smallest code that can show it, with and without what triggers it."""
    x = torch.linspace(-1.0, 1.0, 8)
    return before(x if is_triggered else x.abs()).sqrt()


def measure(result):
    """Observations, not judgements: `bug` and `match` in the header read them."""
    return {
        "nonfinite": int((~torch.isfinite(result)).sum()),
        "norm": float(torch.nan_to_num(result).norm()),
    }


def control():
    """The same code without the trigger: must be clean."""
    return measure(compute(is_triggered=False))


def detector():
    """The symptom by construction: shows that `bug` sees it."""
    return measure(torch.full((8,), float("nan")))


def trigger():
    """The bug, if this build has it."""
    return measure(compute(is_triggered=True))


def apply_todo_name(x):
    """TODO: what readers paste, for any dtype and device: what to pass to it."""
    return x.abs()


def workaround_todo_name():
    """The trigger with the remedy on: clean, and equal to the control."""
    return measure(compute(is_triggered=True, before=apply_todo_name))
'''
LOG = """\
TODO: the log as somebody would paste it: the telling lines, and around them other
paths, versions, ranks and shapes than those of the signature.
"""
