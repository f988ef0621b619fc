"""Addresses of runs, sweeps and bisections: what is alike in them, once."""
