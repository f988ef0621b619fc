"""What runs add to a record's page: answer, builds, evidence, and the run button."""
