"""What container image names say of the torch inside. Pure.

NVIDIA's images carry a build from source; which one stands in the release notes of
each month (docs.nvidia.com/deeplearning/frameworks/pytorch-release-notes). The months
below were read there or in tables that quote them; any other month is kept as such.
"""

from __future__ import annotations

import re

NVIDIA = {
    "23.11": "2.2.0a0+6a974bec", "23.12": "2.2.0a0+81ea7a4", "24.01": "2.2.0a0+81ea7a4",
    "24.02": "2.3.0a0+ebedce2", "24.03": "2.3.0a0+40ec155e58",
    "24.04": "2.3.0a0+6ddf5cf85e", "24.05": "2.4.0a0+07cecf4168",
    "24.06": "2.4.0a0+f70bd71a48", "24.07": "2.4.0a0+3bcc3cddb5",
    "24.08": "2.5.0a0+872d972e41", "24.09": "2.5.0a0+b465a5843b",
    "24.10": "2.5.0a0+e000cf0ad9", "24.11": "2.6.0a0+df5bbc09d1",
    "24.12": "2.6.0a0+df5bbc09d1", "25.01": "2.6.0a0+ecf3bae40a",
    "25.02": "2.7.0a0+6c54963f75", "25.03": "2.7.0a0+7c8ec84dab",
    "25.04": "2.7.0a0+79aa17489c", "25.05": "2.8.0a0+5228986c39",
    "25.06": "2.8.0a0+5228986c39", "25.12": "2.10.0a0+b4e4ee81d3",
}  # fmt: skip
NUMBER = r"\d{1,2}\.\d{1,2}(?:\.\d{1,2})?(?:rc\d|\.dev\d{8})?"
MONTH = re.compile(
    r"nvidia[/+]pytorch[:+](\d{2}\.\d{2})(?![\d.])"
    r"|pytorch[:_+-](\d{2}\.\d{2})(?=-py3|\.sif|\.sqsh|\.sqfs)"
    r"|(?:NVIDIA_PYTORCH_VERSION\s?[=:]|NVIDIA Release|NGC(?: PyTorch)?)\s?"
    r"(\d{2}\.\d{2})(?!\d)",
    re.IGNORECASE,
)
TAGGED = re.compile(
    rf"(?:/|huggingface-)pytorch(?:-training|-inference)?:({NUMBER})(?=-|\s|$|['\"])"
    rf"|(?<![\w.-])pytorch:({NUMBER})(?=-(?:cuda|cudnn|gpu|cpu|rocm|py|devel|runtime))",
    re.IGNORECASE,
)
# rocm/pytorch:…_pytorch_release_2.3.0, modelscope:…-torch2.5.1-…
INSIDE = re.compile(
    rf"(?:_pytorch_(?:release_)?|[-_](?:py)?torch-?)({NUMBER})(?=[-_\s'\"]|$)"
)


def torch_of_image(text: str) -> str | None:
    """The torch version that an image named in `text` holds, as far as it says."""
    low = text.lower()
    if "pytorch" in low or "ngc" in low or "nvidia release" in low:
        month = MONTH.search(text)
        if month:
            return torch_of_month(month[1] or month[2] or month[3])
        tagged = TAGGED.search(text)
        if tagged:
            return tagged[1] or tagged[2]
    inside = INSIDE.search(text) if ":" in text else None
    return inside[1] if inside else None


def torch_of_month(month: str) -> str:
    """What torch.__version__ says in NVIDIA's image of `month` ("24.12")."""
    version = NVIDIA.get(month)
    return f"{version}.nv{month}" if version else f"nv{month}"
