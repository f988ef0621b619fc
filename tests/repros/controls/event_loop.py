# /// script
# dependencies = ["torch>=1.13"]
# [tool.doesitnan]
# fidelity = "upstream_bug"
# device = "cpu"
# bug = "reached > 0"
# timeout_s = 20
# memory_mib = 1024
# ///
"""Runs an event loop with a pipe, a thread and a program."""

import asyncio


def control():
    return {"reached": 0}


def detector():
    return {"reached": 1}


async def main():
    process = await asyncio.create_subprocess_exec(
        "echo", "hello", stdout=asyncio.subprocess.PIPE
    )
    said, _ = await process.communicate()
    loop = asyncio.get_running_loop()
    return said, await loop.run_in_executor(None, lambda: 3)


def trigger():
    return {"reached": int(asyncio.run(main()) != (b"hello\n", 3))}
