# timeout_s = 60
# needs = ["loader"]
"""Passes a tensor to a process and back."""

import torch
import torch.multiprocessing


def double(x, queue, taken):
    queue.put(x * 2)
    taken.wait()  # Whoever made a tensor must live until it is taken.


def trigger():
    context = torch.multiprocessing.get_context("fork")
    queue, taken = context.Queue(), context.Event()
    worker = context.Process(target=double, args=(torch.ones(8), queue, taken))
    worker.start()
    total = float(queue.get().sum())
    taken.set()
    worker.join()
    return {"reached": int(total != 16)}
