"""Gives the torch it was started with another version."""

import torch


torch.__version__ = "9.9.9"
torch.version.git_version = "0" * 40
