"""What a page says of one run besides its evidence: its time, trials, the last run."""
