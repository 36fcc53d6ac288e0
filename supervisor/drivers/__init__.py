"""An agent's side where a CLI is spoken to by a protocol: `python -m supervisor.drivers KIND -- ARGV…` is the agent."""
