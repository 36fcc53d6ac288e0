"""The benchmark: `python -m tests.bench` measures what users wait for, beside other process supervisors, in one run."""
