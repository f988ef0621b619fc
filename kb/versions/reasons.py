"""Why an environment counts as affected, in sentences of both languages."""

from __future__ import annotations

# {"package": …, "en": …, "zh": …}
Reason = dict[str, str]

SENTENCES: dict[str, tuple[str, str]] = {
    "ran_bug": (
        "The bug was reproduced on exactly this build, {version}.",
        "在完全相同的构建 {version} 上已复现该缺陷。",
    ),
    "ran_clean": (
        "The repro ran on exactly this build, {version}, and the bug was not seen.",
        "已在完全相同的构建 {version} 上运行复现程序，未出现该缺陷。",
    ),
    "listed_affected": (
        "{package} {version} is listed in the record as affected.",
        "记录中列出 {package} {version} 受影响。",
    ),
    "listed_not_affected": (
        "{package} {version} is listed in the record as not affected.",
        "记录中列出 {package} {version} 不受影响。",
    ),
    "range_affected": (
        "{package} {version} lies in the documented range ({ranges}).",
        "{package} {version} 在文档记载的受影响范围内（{ranges}）。",
    ),
    "range_not_affected": (
        "{package} {version} lies outside the documented range ({ranges}).",
        "{package} {version} 不在文档记载的受影响范围内（{ranges}）。",
    ),
    "between_affected": (
        "{package} {version} was built between two releases that both lie well inside "
        "the documented range ({ranges}).",
        "{package} {version} 构建于两个正式版之间，两者都在文档记载的受影响范围以内，"
        "且离边界至少隔一个版本（{ranges}）。",
    ),
    "between_not_affected": (
        "{package} {version} was built between two releases that both lie well outside "
        "the documented range ({ranges}).",
        "{package} {version} 构建于两个正式版之间，两者都在文档记载的受影响范围以外，"
        "且离边界至少隔一个版本（{ranges}）。",
    ),
    "every_version": (
        "The record counts every version of {package} as affected.",
        "记录认为 {package} 的所有版本都受影响。",
    ),
    "cpu_build": (
        "{package} {version} is built without GPU support; the bug needs a GPU.",
        "{package} {version} 是不支持 GPU 的构建，而该缺陷需要 GPU。",
    ),
    "other_build": (
        "{package} {version} is not built for CUDA; the bug needs {ranges}.",
        "{package} {version} 不是面向 CUDA 的构建，而该缺陷需要 {ranges}。",
    ),
    "other_gpu": (
        "The bug needs {ranges}; the GPU is {version}.",
        "该缺陷需要 {ranges}，而给出的 GPU 是 {version}。",
    ),
    "series": (
        "{package} {version} names several releases, and they do not all lie on one "
        "side of the documented range ({ranges}): give the whole version.",
        "{package} {version} 对应多个正式版，它们并不都在文档记载的范围（{ranges}）的"
        "同一侧：请给出完整的版本号。",
    ),
    "unorderable": (
        "{package} {version} cannot be placed in the documented range ({ranges}): its "
        "version does not say which changes it contains, and it is not listed.",
        "无法判断 {package} {version} 是否在文档记载的范围内（{ranges}）："
        "版本号不能说明它包含哪些改动，记录中也没有列出它。",
    ),
    "not_listed": (
        "The record says nothing of {package} {version}.",
        "记录没有提到 {package} {version}。",
    ),
    "not_given": (
        "It is not known which {package} is installed.",
        "不清楚安装的是哪个版本的 {package}。",
    ),
    "nothing_documented": (
        "The record names no affected versions.",
        "记录没有给出受影响的版本。",
    ),
}


def reason(package: str, kind: str, version: str = "", ranges: str = "") -> Reason:
    en, zh = SENTENCES[kind]
    words = {"package": package, "version": version, "ranges": ranges}
    return {"package": package, "en": en.format(**words), "zh": zh.format(**words)}
