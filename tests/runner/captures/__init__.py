"""Captures: what is kept of them, how they run, and who sees them."""
