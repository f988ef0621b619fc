# timeout_s = 60
# memory_mib = 2048
# needs = ["loader"]
"""Loads data by two worker processes."""

import torch
import torch.utils.data


class Squares(torch.utils.data.Dataset):
    def __len__(self):
        return 16

    def __getitem__(self, index):
        return torch.tensor(index * index)


def trigger():
    loader = torch.utils.data.DataLoader(Squares(), batch_size=4, num_workers=2)
    total = sum(int(batch.sum()) for batch in loader)
    return {"reached": int(total != sum(n * n for n in range(16)))}
