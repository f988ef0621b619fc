"""A small record of our own as files, in canonical form, to be spoilt by tests."""

from pathlib import Path

FACTS = """\
schema = 1
id = "NAN-9001"
slug = "sample"
publication = "published"
upstream = "open"
symptom_class = "nan_grad"
components = ["sdpa"]
aliases = ["example/project#1"]
related = []
title = {en = "A sample", zh = "一个样例"}
symptom = {en = "One line", zh = "一行说明"}
environment = ["torch 2.13.0+cpu"]
affected_when = "any"
holds_on = {devices = ["any"], why = "shared"}

[[precondition]]
key = "dtype"
value = "bf16"
text = {en = "Only in bf16.", zh = "仅 bf16。"}

[[signature]]
kind = "message"
text = "UserWarning: \\"strides\\" \\\\ differ"
seen = "printed"

[[affected]]
package = "torch"
events = [{introduced = "2.11.0"}, {fixed = "2.15.0"}]
builds = [{raw = "2.6.0a0+df5bbc09d1.nv24.12", state = "affected"}]
source = "s-1"

[[fix]]
kind = "root_fix"
package = "torch"
version = "2.15.0"
source = "s-1"

[[workaround]]
name = "turn_off"
kind = "code"
apply = "off(1)\\noff(2)"
needs = ""
cost = {en = "Slower.", zh = "更慢。"}

[[claim]]
id = "c1"
kind = "workaround"
text = {en = "Turning it off helps.", zh = "关掉即可。"}
source = "s-1"
check = "repro:workaround_turn_off"
expects = "clean"
builds = ["*"]

[[claim]]
id = "c2"
kind = "cause"
text = {en = "Nobody ran this.", zh = "没有人运行过。"}
source = "s-1"

[[source]]
id = "s-1"
kind = "report"
url = "https://example.org/1"
title = "A report"
date = "2025-03-20"
"""
ENGLISH = """\
## Symptom

```log
loss: nan
## not a heading
```

It is **NaN**.

## Environment

Any.

## Root cause

Not established.

## Workarounds

Before any of them.

### turn_off

Turn it off.

## Fix

A root fix.
"""
CHINESE = """\
## 现象

```log
loss: nan
## not a heading
```

出现 NaN。

## 环境

任意。

## 根因

未确定。

## 规避方法

先看这里。

### turn_off

关掉它。

## 修复

根本修复。
"""
REPRO = """\
# /// script
# requires-python = ">=3.9"
# dependencies = ["torch>=2.0"]
# [tool.doesitnan]
# record = "NAN-9001"
# fidelity = "upstream_bug"
# device = "cpu"
# bug = "nonfinite > 0"
# match_waived = "nothing to compare"
# ///
\"\"\"A sample.\"\"\"


def control():
    return {"nonfinite": 0}


def detector():
    return {"nonfinite": 1}


def trigger():
    return {"nonfinite": 1}


def workaround_turn_off():
    return {"nonfinite": 0}
"""
FILES = {
    "issue.toml": FACTS,
    "article.en.md": ENGLISH,
    "article.zh.md": CHINESE,
    "repro.py": REPRO,
}


def write_sample(root: Path, slug: str = "sample") -> Path:
    """The sample below `root`, with its folder; returns the folder."""
    folder = root / slug
    folder.mkdir()
    for name, text in FILES.items():
        (folder / name).write_text(text, encoding="utf-8")
    return folder


def edit(path: Path, old: str, new: str) -> None:
    """Replace one text in a file; the text must be there."""
    text = path.read_text(encoding="utf-8")
    if old not in text:
        raise AssertionError(f"{path.name} does not hold {old!r}")
    path.write_text(text.replace(old, new, 1), encoding="utf-8")
