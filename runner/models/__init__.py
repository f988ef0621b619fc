"""Torch builds, where they are installed, runs of repros on them, and evidence.

A new column has a default in the database, too (`db_default`): while a site is
upgraded, workers of the old checkout still write rows that do not know it.
"""

from runner.models.build import SLUG, Build, Installation
from runner.models.capture import Capture, CaptureRun
from runner.models.evidence import Evidence
from runner.models.run import Joiner, LogChunk, Run
from runner.models.sweep import Sweep
from runner.models.token import Token
from runner.models.worker import Chore, Device, Worker

__all__ = [
    "SLUG",
    "Build",
    "Capture",
    "CaptureRun",
    "Chore",
    "Device",
    "Evidence",
    "Installation",
    "Joiner",
    "LogChunk",
    "Run",
    "Sweep",
    "Token",
    "Worker",
]
