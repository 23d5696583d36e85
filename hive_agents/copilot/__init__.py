"""The copilot: what each step of a turn does, without LangGraph."""
