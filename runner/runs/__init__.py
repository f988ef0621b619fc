"""The queue: runs from submission to their end. The row is the queue.

`submission` takes a run in, `ledger` claims and finishes it by conditional UPDATEs;
the others say who may wait, who serves, and what is wrong. No Celery here.
"""
