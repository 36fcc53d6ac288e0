"""`python -m supervisor.mcp_server`: what `supervisor mcp` becomes."""

from supervisor.mcp_server.server import main

main()
