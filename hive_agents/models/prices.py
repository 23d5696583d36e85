"""Prices of tokens: some of Bedrock's from `prices.json`, all others from the package genai-prices."""

from __future__ import annotations

import json
import re
from functools import cache
from math import ceil
from pathlib import Path
from typing import Any

from hive_agents.models.model import Usage
from hive_agents.workspace.settings import Price

_REGION = re.compile(r"^(us|us-gov|eu|apac|au|jp|ca|global)\.")
_PROVIDERS = {"bedrock": "aws", "google_genai": "google", "google_vertexai": "google", "mistralai": "mistral"}
"""LangChain's names of providers → those of the price list, where they differ."""

CHARACTERS_PER_TOKEN = 3
"""An estimate for servers that count no tokens, low enough that budgets aren't exceeded."""

_VERSION = re.compile(r"(-\d{8})?(-v\d+)?(:\w+)*$")


def usage_of(name: str, input_tokens: int, output_tokens: int) -> Usage:
    """Return the usage with its cost at the list price of the model `name`.

    >>> usage_of("bedrock:us.anthropic.claude-3-haiku-20240307-v1:0", 1000, 100).usd
    0.000375
    >>> usage_of("bedrock:somebody.new", 1000, 100)
    Usage(input_tokens=1000, output_tokens=100, usd=0.0, priced=False, estimated=False)
    """
    return usage_at(list_price(name), input_tokens, output_tokens)


def usage_at(price: Price | None, input_tokens: int, output_tokens: int) -> Usage:
    """Return the usage with its cost; without a price it costs 0 and isn't `priced`."""
    usd = 0.0 if price is None else (input_tokens * price.input + output_tokens * price.output) / 1e6
    return Usage(input_tokens=input_tokens, output_tokens=output_tokens, usd=usd, priced=price is not None)


def estimated_usage(
    price: Price | None,
    sent: int,
    written: int = 0,
    *,
    per_token: tuple[float, float] = (CHARACTERS_PER_TOKEN, CHARACTERS_PER_TOKEN),
) -> Usage:
    """Return the estimated usage of characters sent and written; `per_token` is the characters of a token in each.

    >>> estimated_usage(Price(input=1.0, output=2.0), 3000, 7)
    Usage(input_tokens=1000, output_tokens=3, usd=0.001006, priced=True, estimated=True)
    """
    tokens = ceil(sent / per_token[0]), ceil(written / per_token[1])
    return usage_at(price, *tokens).model_copy(update={"estimated": True})


@cache
def list_price(name: str, url: str | None = None) -> Price | None:
    """Return the list price of a model, None for an unknown one.

    `url` is the server of an endpoint's model, whose name doesn't say which provider it is.
    """
    provider, _, model = name.partition(":")
    if provider in ("scripted", "onnx"):
        return Price(input=0.0, output=0.0)
    if provider == "bedrock":
        listed = _table().get(_VERSION.sub("", _REGION.sub("", model)))
        if listed is not None:
            return Price(**listed)
    from genai_prices import Usage as Tokens, calc_price

    where: Any = {"provider_api_url": url} if url else {"provider_id": _PROVIDERS.get(provider, provider)}
    prices = []
    for tokens in (Tokens(input_tokens=1000), Tokens(output_tokens=1000)):  # long prompts have other prices
        try:
            prices.append(float(calc_price(tokens, model_ref=model, **where).total_price * 1000))
        except (LookupError, ValueError):
            return None
    return Price(input=prices[0], output=prices[1])


@cache
def _table() -> dict[str, dict[str, float]]:
    data = json.loads(Path(__file__).with_name("prices.json").read_text(encoding="utf-8"))
    return dict(data["models"])
