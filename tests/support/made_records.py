"""Records of recombined words in both languages, for tests that need many."""

from __future__ import annotations

import random

from kb.models import Record

ENGLISH = """
gradient checkpoint nan loss overflow bf16 attention mask backward inductor stride
kernel dtype compile autocast optimizer grad_output.strides SqrtBackward0 use_reentrant
torch.nn.functional.rms_norm CUBLAS_WORKSPACE_CONFIG pytorch/pytorch#138581 losses masks
"""
CHINESE = """
梯度 检查点 溢出 精度 编译 显存 注意力 掩码
反向 步幅 归一化 训练 损失 张量 数值 死锁
"""


def make_records(count: int, seed: int = 1) -> list[Record]:
    """Unsaved and published; the same for the same `seed`."""
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
