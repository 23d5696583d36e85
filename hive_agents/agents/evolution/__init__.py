"""Agents that evolve: what a proposal changes, what more it lets an agent do, and what its eval cases say of it."""
