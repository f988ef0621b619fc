"""The page of a comparison, and the feeds of what turns."""
