"""What a record's page shows."""
