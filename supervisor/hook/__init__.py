"""The agent's side of asks: `supervisor-hook <cli>`, which a CLI runs for each permission request. Stdlib only."""
