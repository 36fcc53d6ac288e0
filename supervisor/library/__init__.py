"""A Python agent's own side: `join` gives it its session, which asks, serves and has children in the same process."""
