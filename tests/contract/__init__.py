"""One suite per port, run over the fake of `supervisor.testing` and over the real adapter."""
