"""`hive models`: the configured models, and tests of what they can do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from hive_agents.cli.surface import Surface, styled, with_surface

if TYPE_CHECKING:
    from hive_agents.models import Probe, probing

app = typer.Typer(help="List and test the configured chat models, embedding model and reranker.")
NamesArgument = Annotated[
    list[str] | None, typer.Argument(metavar="[NAME]...", help="Models, as provider:model (default: all).")
]


@app.command("list")
@with_surface()
def list_(
    surface: Surface,
    served: Annotated[bool, typer.Option("--served", help="Ask each endpoint which models it serves.")] = False,
) -> None:
    """List the configured models with their roles and prices, and the endpoints. No model is called."""
    from hive_agents.models import price_of, probing
    from hive_agents.workspace import is_trusted

    place = surface.workspace
    settings = place.settings.models
    models: list[dict[str, Any]] = [
        {"name": name, "roles": roles, "price": _price(price_of(place.settings, name))}
        for name, roles in probing.configured_chat(place).items()
    ]
    models += [
        {"name": name, "roles": [role], "price": None}
        for role, name in (("embedding", settings.embedding), ("reranker", settings.reranker))
        if name
    ]
    served_by = probing.served(place) if served else {}
    endpoints: list[dict[str, Any]] = [
        {
            "name": name,
            "base_url": endpoint.base_url,
            "trusted": is_trusted(place, f"models.endpoints.{name}"),
            "serves": served_by.get(name),
        }
        for name, endpoint in settings.endpoints.items()
    ]
    lines = [f"{model['name']}: {', '.join(model['roles'])}{_cost(model['price'])}" for model in models]
    for row in endpoints:
        lines.append(f"endpoint {row['name']}: {row['base_url']}{'' if row['trusted'] else ' (not trusted: not used)'}")
        serves = row["serves"] or []  # a text is the error
        lines += [f"  {serves}"] if isinstance(serves, str) else [f"  {row['name']}:{name}" for name in serves]
    surface.show({"models": models, "endpoints": endpoints}, *lines)


@app.command("test")
@with_surface()
def ask(surface: Surface, names: NamesArgument = None) -> None:
    """Call each model and report latency, structured output, tools, streaming and price."""
    from hive_agents.models import probing

    place = surface.workspace
    chat = probing.probed(place, names if names else list(probing.configured_chat(place)))
    others = [] if names else [probing.tried_embedding(place), probing.tried_reranker(place)]
    tried = [result for result in others if result is not None]
    lines = []
    for probe in chat:
        lines += _lines(probe, probing.told_of(probe), "" if probing.is_fit(probe) else probing.TAKE_A_LARGER)
    for result in tried:
        lines += _lines(result, f"{result.kind}, {result.seconds:.2f} s")
    ok = all(probe.ok for probe in chat) and all(result.ok for result in tried)
    value: dict[str, Any] = {
        "ok": ok,
        "models": [probe.model_dump(mode="json") for probe in chat],
        "others": [vars(result) for result in tried],
    }
    surface.show(value, *lines)
    raise typer.Exit(0 if ok else 3)


def _lines(result: Probe | probing.Tried, summary: str, advice: str = "") -> list[Any]:
    """Return the lines of a test; `advice` is the fix for a model that answers but lacks something."""
    status, colour = ("fail", "red") if not result.ok else ("warn", "yellow") if advice else ("ok", "green")
    fix = result.fix or (advice if result.ok else "")
    line = styled(f"{status:5}", colour) + f"{result.name}: {summary if result.ok else result.error}"
    return [line, *([f"     fix: {fix}"] if fix else [])]


def _price(price: Any) -> dict[str, float] | None:
    return price.model_dump() if price is not None else None


def _cost(price: dict[str, float] | None) -> str:
    if price is None:
        return ""
    return f" (${price['input']:g} and ${price['output']:g} for a million tokens in and out)"
