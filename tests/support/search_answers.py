"""What a store answers to many queries, as JSON; run by `-m`.

In a test database of its own on the server that DATABASE_URL names, so that two
databases can be compared.
"""

from __future__ import annotations

import json
import os
import random
import sys
from typing import Any

import django
from django.db import transaction
from django.test.utils import setup_databases, teardown_databases

ENGLISH = """
gradient checkpoint nan loss overflow bf16 attention mask backward inductor stride
kernel dtype compile autocast optimizer grad_output.strides SqrtBackward0 use_reentrant
torch.nn.functional.rms_norm CUBLAS_WORKSPACE_CONFIG pytorch/pytorch#138581 losses masks
"""
CHINESE = """
梯度 检查点 溢出 精度 编译 显存 注意力 掩码
反向 步幅 归一化 训练 损失 张量 数值 死锁
"""
QUERIES = [
    *(
        "nan",
        "gradient",
        "梯度",
        "步",
        "檢查點",
        "torch.nn",
        "grad_o",
        "'",
        '"',
        "a | b",
    ),
    *(
        "梯度检查点丢失",
        "loss becomes nan after compile",
        "bf16 attention mask overflow",
    ),
    *(
        "SqrtBackward0 returned nan",
        "训练时损失变成 nan 怎么办",
        "no such words at all",
    ),
    *(
        "cuDNN SDPA stride warning",
        "use_reentrant 梯度",
        "zebra gradient",
        "learning rate",
    ),
]
LOGS = [
    "UserWarning: cuDNN SDPA backward got grad_output.strides() != output.strides()",
    "RuntimeError: Function 'SqrtBackward0' returned nan values in its 0th output.",
    "{'loss': 0.0, 'grad_norm': nan}",
    "RuntimeError: element 0 of tensors does not require grad and has no grad_fn",
]


def make_records(count: int, seed: int = 1) -> list[Any]:
    """Records of recombined words in both languages."""
    from kb.models import Record

    source = random.Random(seed)
    chinese = CHINESE.split()

    def english() -> str:
        return " ".join(source.choices(ENGLISH.split(), k=12))

    def han() -> str:
        return "，".join("".join(source.choices(chinese, k=3)) for _ in range(3))

    return [
        Record(
            id=f"NAN-{1000 + number}",
            slug=f"t-{number}",
            publication="published",
            upstream=source.choice(["open", "fixed"]),
            symptom_class=source.choice(["nan_grad", "lost_grad"]),
            components=source.sample(["sdpa", "cudnn", "amp"], 2),
            title_en=english(),
            title_zh=han(),
            summary_en=english(),
            summary_zh=han(),
            root_cause_en=" ".join(english() for _ in range(4)),
            root_cause_zh="。".join(han() for _ in range(4)),
            signatures=[{"kind": "message", "text": f"RuntimeError: {english()}"}],
        )
        for number in range(count)
    ]


def answers(count: int) -> dict[str, Any]:
    """Every query with the records it finds, in order; every log with its matches."""
    from django.conf import settings

    from kb.lookup.answer import look_up
    from kb.models import Record
    from kb.publishing.loading import load_records
    from kb.search.ranking.listing import listing
    from runner.evidence.repros import inspect
    from tests.support.records import save_all

    load_records(settings.ISSUES_DIR, inspect=inspect)
    save_all(make_records(count))
    titles = [row.title_en for row in Record.objects.order_by("id")[:100:5]]
    found: dict[str, Any] = {}
    for query in [*QUERIES, *titles]:
        listed = listing(query, {}, {}, "relevance")
        found[query] = [(pk, round(score, 6)) for pk, score in listed.found]
    for log in LOGS:
        matches = look_up(log)["matches"]
        found[log] = [(item["record"], item["score"]) for item in matches]
    return found


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
    django.setup()
    names = setup_databases(verbosity=0, interactive=False)
    try:
        with transaction.atomic():
            print(json.dumps(answers(int(sys.argv[1]))))  # noqa: T201
    finally:
        teardown_databases(names, verbosity=0)


if __name__ == "__main__":
    main()
