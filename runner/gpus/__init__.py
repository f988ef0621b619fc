"""GPUs of a host: inventory, locks, and telemetry of runs.

`vendor` is what a vendor's library is asked, `nvml` is the one there is,
`devices` lists what is here, `gpu_run` drives a repro on it. Standard library and the
vendor's library, so that a checkout without Django works.
"""
