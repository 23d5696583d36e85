"""Who watches over running agents: `health`, the judge that tells, and `queen`, who acts; neither knows of the other.

Both stand on runs, events, memory, approvals and models, and meet on the event log only; their graphs are
`graphs/judge.py` and `graphs/queen.py`, their loops in `runtime`. What is wrong with a run is a new detector in
`health.detectors`; what the queen does about a ticket is a line in `queen.policy`, what can be said to her one in
`queen.commands`, what a model may do for her a tool in `queen.tools`.
"""
