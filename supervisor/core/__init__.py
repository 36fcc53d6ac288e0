"""Pure decisions: no clock, environment, file, process or log. Callers pass facts in and get decisions back."""
