"""A fake model on loopback, for the tests that run real agent CLIs."""
