"""Evidence: what a run observed, judged again, stored, turned into findings.

`store` is the door for what this site ran and what lies beside the records, `exchange`
for what somebody sent. Findings reach kb through `kb.findings.writing` alone.
"""
