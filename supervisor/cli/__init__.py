"""The command line: a lazy click group, one module per command. Parses, calls the runtime, renders."""
