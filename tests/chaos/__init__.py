"""A tree of real processes under random faults, and what must hold afterwards: `make chaos`."""
