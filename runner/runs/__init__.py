"""The queue: runs from submission to their end. The row is the queue.

`submission` queues what `admission` and `throttle` accept, `scheduling` orders it,
`ledger` claims and finishes runs by conditional UPDATEs. No Celery here.
"""
