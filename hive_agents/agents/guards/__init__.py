"""Guards against loops, stalls and exhausted budgets.

Each guard is arithmetic over what a run did, without a clock or a store. A new guard is a file here, and a line where
the node's loop calls the others.
"""
