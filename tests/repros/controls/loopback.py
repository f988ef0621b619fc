# /// script
# dependencies = ["torch>=1.13"]
# [tool.doesitnan]
# fidelity = "upstream_bug"
# device = "cpu"
# bug = "reached > 0"
# timeout_s = 60
# memory_mib = 1024
# needs = ["loopback"]
# ///
"""A group of one process, over gloo."""

import socket
import torch
import torch.distributed


def control():
    return {"reached": 0}


def detector():
    return {"reached": 1}


def trigger():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    address = "tcp://127.0.0.1:%d" % port
    torch.distributed.init_process_group("gloo", address, rank=0, world_size=1)
    x = torch.ones(4)
    torch.distributed.all_reduce(x)
    torch.distributed.destroy_process_group()
    return {"reached": int(x.sum() != 4)}
