"""GPUs: what NVML says of them, who holds one, and how one is while a run has it.

`nvml` asks NVIDIA's driver, `devices` lists what a host has; a second vendor stands
beside `nvml`. Standard library and pynvml, so that a checkout without Django works.
"""
