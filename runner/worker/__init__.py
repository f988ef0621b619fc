"""A worker: hears of runs, executes them, and says that it is alive.

`tasks` is its Celery half, `execution` one run from its claim to its evidence,
`heartbeat` the rows of worker and devices, `supervisor` the processes of `up`.
"""
