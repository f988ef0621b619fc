"""What tests share: rows, sites, corpora, servers, and the runner of Django's tests."""
