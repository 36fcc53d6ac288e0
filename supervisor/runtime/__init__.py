"""The only code that loops, waits or logs. `compose` wires it to the real adapters."""
