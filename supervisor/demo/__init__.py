"""The demo agent: a small scripted stand-in for a coding agent, for the demo, the tests and trying things.

It owns its own session files and nothing else. It never imports the rest of the package: it knows
`supervisor` only as any coding agent does, as a command to run.
"""
