"""Wiring between the library and LangGraph: context, checkpoints, runs."""
