"""GPUs of a host: inventory, locks, and telemetry of runs.

`nvml` calls NVIDIA's driver, `devices` reads GPUs, `gpu_run` drives a repro on them; a
backend for a second vendor would stand beside `nvml`. Standard library and pynvml, so
that a checkout without Django works.
"""
