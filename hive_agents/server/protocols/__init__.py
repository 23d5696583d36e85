"""What other programs already speak: AG-UI, OpenAI's chat completions, MCP; each a projection of runs and replies."""
