"""What the admin calls the models and their columns, in the reader's language."""

from __future__ import annotations

from typing import Any

from django.db import models
from django.utils.translation import gettext_lazy as _

from kb.admin.admin import name_columns
from runner.models import Build, Device, Evidence, Installation, Run, Worker
from runner.models.token import Token

NAMES: dict[type[models.Model], tuple[Any, Any]] = {
    Build: (_("build"), _("builds")),
    Installation: (_("installation"), _("installations")),
    Worker: (_("worker"), _("workers")),
    Device: (_("GPU"), _("GPUs")),
    Run: (_("run"), _("runs")),
    Evidence: (_("evidence"), _("evidence")),
    Token: (_("API token"), _("API tokens")),
}
COLUMNS: dict[type[models.Model], dict[str, Any]] = {
    Build: {
        "slug": _("Build"),
        "raw": _("Version as torch says"),
        "dist": _("Distribution"),
        "git": _("git commit"),
        "cuda": "CUDA",
        "hip": "HIP",
        "cudnn": "NVIDIA cuDNN",
        "python": "Python",
        "platform": _("Platform"),
        "first_seen": _("First seen"),
    },
    Installation: {
        "build": _("Build"),
        "host": _("Host"),
        "interpreter": _("Interpreter"),
        "managed": _("Made by this site"),
        "state": _("State"),
        "error": _("Error"),
        "packages": _("Packages"),
        "facts": _("Facts"),
        "disk_bytes": _("Bytes on disk"),
        "probed_at": _("Probed"),
    },
    Worker: {
        "name": _("Worker"),
        "host": _("Host"),
        "queues": _("Queues"),
        "devices": _("Devices"),
        "tier": _("Tier"),
        "sandbox": _("Sandbox"),
        "slots": _("Slots"),
        "paused": _("Paused"),
        "draining": _("Draining"),
        "protocol": _("Protocol"),
        "started_at": _("Started at"),
        "last_seen": _("Heartbeat"),
    },
    Device: {
        "host": _("Host"),
        "uuid": "UUID",
        "name": _("Name"),
        "capability": _("Compute capability"),
        "memory_mib": _("Memory, MiB"),
        "driver": _("Driver"),
        "state": _("State"),
        "reason": _("Reason"),
        "last_seen": _("Last seen"),
    },
    Run: {
        "id": _("Run"),
        "repro": _("Repro"),
        "repro_digest": _("Digest of the repro"),
        "build": _("Build"),
        "device": _("Device"),
        "trials": _("Trials"),
        "protocol": _("Protocol"),
        "priority": _("Priority"),
        "requester": _("Asked for by"),
        "min_capability": _("Compute capability, at least"),
        "min_memory_mib": _("GPU memory in MiB, at least"),
        "min_devices": _("GPUs, at least"),
        "state": _("State"),
        "phase": _("Phase"),
        "attempt": _("Attempt"),
        "worker": _("Worker"),
        "gpu": "GPU",
        "lease_until": _("Held until"),
        "cancel_requested": _("Cancel requested"),
        "verdict": _("Verdict"),
        "reason": _("Reason"),
        "hits": _("Hits"),
        "evidence": _("Evidence"),
        "created_at": _("Submitted"),
        "started_at": _("Started at"),
        "finished_at": _("Finished at"),
    },
    Evidence: {
        "digest": _("Digest"),
        "record": _("Record"),
        "build": _("Build"),
        "repro_name": _("Repro"),
        "repro_digest": _("Digest of the repro"),
        "device_class": _("Device"),
        "verdict": _("Verdict"),
        "origin": _("Origin"),
        "sender": _("Sent by the user"),
        "withdrawn": _("Withdrawn"),
        "vouched": _("Confirmed by a maintainer"),
        "started_at": _("Started at"),
        "added_at": _("Added at"),
    },
    Token: {
        "name": _("Name"),
        "user": _("User"),
        "start": _("Begins with"),
        "scopes": _("Scopes"),
        "expires_at": _("Valid until"),
        "created_at": _("Submitted"),
        "last_used_at": _("Last used"),
    },
}

for model, labels in COLUMNS.items():
    name_columns(model, labels, NAMES[model])
