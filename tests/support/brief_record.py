"""A small brief record of our own as files, in canonical form."""

from pathlib import Path

FACTS = """\
schema = 1
id = "NAN-9002"
slug = "brief-sample"
depth = "brief"
publication = "published"
upstream = "by_design"
symptom_class = "nan_forward"
components = ["logging"]
aliases = ["another-name"]
related = []
title = {en = "A brief sample", zh = "一个简短样例"}
symptom = {en = "A brief line", zh = "简短的一行"}
environment = []
affected_when = "any"
holds_on = {devices = ["any"], why = "shared"}

[[source]]
id = "s-1"
kind = "docs"
url = "https://example.org/2"
title = "A page"
"""
ENGLISH = """\
## What it is

It divides by zero.

## How to tell

Print it.

```python
print(divisor)
```

## What to do

Add an eps.
"""
CHINESE = """\
## 是什么

除以了零。

## 如何判断

打印它。

```python
print(divisor)
```

## 怎么办

加上 eps。
"""
FILES = {
    "issue.toml": FACTS,
    "article.en.md": ENGLISH,
    "article.zh.md": CHINESE,
}


def write_brief(root: Path) -> Path:
    folder = root / "brief-sample"
    folder.mkdir()
    for name, text in FILES.items():
        (folder / name).write_text(text, encoding="utf-8")
    return folder
