"""Real processes and the real command, no real agent CLIs. Each test has a state root and a mark of its own."""
