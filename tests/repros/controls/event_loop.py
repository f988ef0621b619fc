"""Runs an event loop with a pipe, a thread and a program."""

import asyncio


async def main():
    process = await asyncio.create_subprocess_exec(
        "echo", "hello", stdout=asyncio.subprocess.PIPE
    )
    said, _ = await process.communicate()
    loop = asyncio.get_running_loop()
    return said, await loop.run_in_executor(None, lambda: 3)


def trigger():
    return {"reached": int(asyncio.run(main()) != (b"hello\n", 3))}
