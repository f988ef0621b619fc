"""GPUs of a host: inventory, locks, and telemetry of runs.

`nvml` asks NVIDIA's library, `devices` lists what is here, `gpu_run` drives a repro on
it. Standard library and pynvml, so that a checkout without Django works.
"""
