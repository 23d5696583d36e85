"""`hive models`: what is configured, and what each of them can do when it is asked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from hive_agents.cli.surface import Surface, styled, with_surface

if TYPE_CHECKING:
    from hive_agents.llm import Probe
    from hive_agents.probing import Tried

app = typer.Typer(help="Chat models, embedding model and reranker: what is configured, what each can do.")
NamesArgument = Annotated[
    list[str] | None, typer.Argument(metavar="[NAME]...", help="Models, as provider:model (default: all).")
]


@app.command("list")
@with_surface()
def list_(
    surface: Surface,
    served: Annotated[bool, typer.Option("--served", help="Ask each endpoint which models it serves.")] = False,
) -> None:
    """List the configured models with their roles and prices, and the endpoints. Asks no model."""
    from hive_agents import probing
    from hive_agents.llm import price_of
    from hive_agents.trust import is_trusted

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
    told = probing.served(place) if served else {}
    endpoints: list[dict[str, Any]] = [
        {"name": name, "base_url": one.base_url, "trusted": is_trusted(place), "serves": told.get(name)}
        for name, one in settings.endpoints.items()
    ]
    lines = [f"{one['name']}: {', '.join(one['roles'])}{_cost(one['price'])}" for one in models]
    for one in endpoints:
        lines.append(f"endpoint {one['name']}: {one['base_url']}{'' if one['trusted'] else ' (not trusted: not used)'}")
        serves = one["serves"] or []
        lines += [f"  {serves}"] if isinstance(serves, str) else [f"  {one['name']}:{name}" for name in serves]
    surface.show({"models": models, "endpoints": endpoints}, *lines)


@app.command("test")
@with_surface()
def ask(surface: Surface, names: NamesArgument = None) -> None:
    """Ask each model and say what came back: latency, structured output, tools, streams, price."""
    from hive_agents import probing

    place = surface.workspace
    chat = probing.probed(place, names if names else list(probing.configured_chat(place)))
    others = [] if names else [probing.tried_embedding(place), probing.tried_reranker(place)]
    tried = [one for one in others if one is not None]
    lines = []
    for one in chat:
        lines += _lines(one, probing.told_of(one), "" if probing.is_fit(one) else probing.TAKE_A_LARGER)
    for other in tried:
        lines += _lines(other, f"{other.kind}, {other.seconds:.2f} s")
    ok = all(one.ok for one in chat) and all(one.ok for one in tried)
    value: dict[str, Any] = {
        "ok": ok,
        "models": [one.model_dump(mode="json") for one in chat],
        "others": [vars(one) for one in tried],
    }
    surface.show(value, *lines)
    raise typer.Exit(0 if ok else 3)


def _lines(one: Probe | Tried, good: str, lacks: str = "") -> list[Any]:
    """Return what came of asking a model; `lacks` is what to do about one that answers and isn't fit for everything."""
    status, colour = ("fail", "red") if not one.ok else ("warn", "yellow") if lacks else ("ok", "green")
    fix = one.fix or (lacks if one.ok else "")
    told = styled(f"{status:5}", colour) + f"{one.name}: {good if one.ok else one.error}"
    return [told, *([f"     fix: {fix}"] if fix else [])]


def _price(price: Any) -> dict[str, float] | None:
    return price.model_dump() if price is not None else None


def _cost(price: dict[str, float] | None) -> str:
    if price is None:
        return ""
    return f" (${price['input']:g} and ${price['output']:g} for a million tokens in and out)"
