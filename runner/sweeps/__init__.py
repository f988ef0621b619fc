"""Sweeps: a repro at many values of one or two parameters, as one job.

`axes` says which cells there are, `queue` who executes them, `boundary` what they show
together and `sentences` says it, `exchange` how they travel as files. Executed by
`runner.worker.sweeping`.
"""
