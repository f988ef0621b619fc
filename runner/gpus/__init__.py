"""GPUs of a host: inventory, locks, and telemetry of runs.

`vendor` is what a vendor's library is asked, `nvml` and `amd` are the vendors,
`devices` lists what is here, `gpu_run` drives a repro on it. Standard
library and the vendors' libraries, so that a checkout without Django works.
"""
