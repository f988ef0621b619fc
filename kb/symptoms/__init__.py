"""Pages of symptoms that many causes show alike."""
