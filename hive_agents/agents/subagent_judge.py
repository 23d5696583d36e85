"""The judge of a sub-agent: all outputs have to be set."""

from __future__ import annotations

from collections.abc import Sequence

from hive_agents.agents.judges import NodeContext, NodeVerdict


class SubagentJudge:
    """Accepts a sub-agent's work when every output key is set; its feedback becomes urgent as iterations run out.

    >>> judge = SubagentJudge(["verdict"], max_iterations=3)
    >>> [judge.evaluate(NodeContext(iteration=n)).feedback for n in (1, 2)]  # doctest: +NORMALIZE_WHITESPACE
    ['Missing outputs: verdict. Only 2 iterations are left: set them now with set_output.',
     'Missing outputs: verdict. Only 1 iteration is left: set them now with set_output.']
    >>> judge.evaluate(NodeContext(accumulator={"verdict": "holds"})).action
    'accept'
    """

    def __init__(self, output_keys: Sequence[str], max_iterations: int = 50, nullable: Sequence[str] = ()) -> None:
        self.output_keys = tuple(output_keys)
        self.max_iterations = max_iterations
        self.nullable = frozenset(nullable)

    def evaluate(self, context: NodeContext) -> NodeVerdict:
        values = context.accumulator
        missing = [key for key in self.output_keys if values.get(key) is None and key not in self.nullable]
        if not missing:
            return NodeVerdict(action="accept")
        left = self.max_iterations - context.iteration
        feedback = f"Missing outputs: {', '.join(missing)}."
        if left <= 0:
            return NodeVerdict(action="retry", feedback=f"{feedback} This was the last iteration.")
        if left <= max(2, self.max_iterations // 5):
            remaining = "1 iteration is" if left == 1 else f"{left} iterations are"
            feedback += f" Only {remaining} left: set them now with set_output."
            return NodeVerdict(action="retry", feedback=feedback)
        return NodeVerdict(action="retry", feedback=f"{feedback} Set each with set_output.")
