"""Launch, record, watch and stop trees of coding agents.

Nothing inside the package imports from here, so losing this file (a shared environment with supervisord may) costs
only `from supervisor import ...`.
"""
