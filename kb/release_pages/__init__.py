"""Pages of releases: what differs between two of them, and what one of them brought."""
