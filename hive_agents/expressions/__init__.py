"""Conditions of rules, constraints and routes: expressions over plain data, bounded in work and memory, no code.

It imports only `hive_agents.errors`, and knows of no rule and no goal. A new operator belongs into `operations`, a
function or method into `functions`, each paying from the allowance before it works; what may be written at all is
decided in `parsing`.
"""

from typing import TYPE_CHECKING

from hive_agents.lazy import lazy

if TYPE_CHECKING:
    from hive_agents.expressions.operations import ExpressionError
    from hive_agents.expressions.parsing import Expression, parse, plain_names

__all__ = ["Expression", "ExpressionError", "parse", "plain_names"]

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy(
        __name__,
        {
            "operations": "ExpressionError",
            "parsing": "Expression parse plain_names",
        },
    )
