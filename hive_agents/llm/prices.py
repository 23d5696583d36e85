"""What tokens cost: a small table of list prices, beside this file."""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path

from hive_agents.llm.model import Usage

_REGION = re.compile(r"^(us|us-gov|eu|apac|au|jp|ca|global)\.")
_VERSION = re.compile(r"(-\d{8})?(-v\d+)?(:\w+)*$")


def usage_of(name: str, input_tokens: int, output_tokens: int) -> Usage:
    """Usage with its price; a model that isn't in the table costs 0 and is marked as not priced.

    >>> usage_of("bedrock:us.anthropic.claude-3-haiku-20240307-v1:0", 1000, 100).usd
    0.000375
    >>> usage_of("bedrock:somebody.new", 1000, 100)
    Usage(input_tokens=1000, output_tokens=100, usd=0.0, priced=False)
    """
    provider, _, model = name.partition(":")
    price = None if provider != "bedrock" else _table().get(_VERSION.sub("", _REGION.sub("", model)))
    if provider == "scripted":
        price = {"input": 0.0, "output": 0.0}
    usd = 0.0 if price is None else (input_tokens * price["input"] + output_tokens * price["output"]) / 1e6
    return Usage(input_tokens=input_tokens, output_tokens=output_tokens, usd=usd, priced=price is not None)


@cache
def _table() -> dict[str, dict[str, float]]:
    data = json.loads(Path(__file__).with_name("prices.json").read_text(encoding="utf-8"))
    return dict(data["models"])
