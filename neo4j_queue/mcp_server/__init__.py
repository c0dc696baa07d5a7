"""The MCP server: graph and queue as tools for agents. Its modules need the extra `mcp`."""
