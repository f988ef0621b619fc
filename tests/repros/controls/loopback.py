# timeout_s = 60
# needs = ["loopback"]
"""A group of one process, over gloo."""

import socket
import torch
import torch.distributed


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
