"""Standard protocols: AG-UI, OpenAI's chat completions and MCP, each a projection of runs and replies."""
