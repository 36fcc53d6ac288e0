"""Laws of the pure core, hunted with Hypothesis."""
