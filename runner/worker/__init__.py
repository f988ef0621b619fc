"""A worker: takes runs from the queue, executes them, and sends heartbeats.

`tasks` is its Celery part, `execution` one run from claim to evidence, `heartbeat` the
rows of worker and devices, `supervisor` the processes of `manage.py up`.
"""
