"""Which release began a bug: the form of a record, and the page that follows it."""
