"""Supervision of running agents: `health`, the judge that reports, and `queen`, which acts; neither imports the other.

Both import runs, events, memory, approvals and models, and communicate by the event log only; their graphs are
`graphs/judge.py` and `graphs/queen.py`, their loops in `runtime`. A new fault of runs is a detector in
`health.detectors`; the queen's action on a ticket is a line in `queen.policy`, a command to her one in
`queen.commands`, an action of her model a tool in `queen.tools`.
"""
