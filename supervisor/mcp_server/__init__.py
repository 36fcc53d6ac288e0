"""`supervisor mcp`: the tools by which an agent has children of its own. Needs the extra `mcp`."""
