"""Addresses of runs and sweeps: what is alike in them, once."""
