"""For authors of records: the skeleton of a new one, and what is missing in one."""
