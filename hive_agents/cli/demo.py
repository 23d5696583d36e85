from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hive_agents.cli.replies import results_table
from hive_agents.cli.surface import Surface, console, figure, styled, with_surface

if TYPE_CHECKING:
    from hive_agents import Workspace
    from hive_agents.evaluation import GoldenQuery
    from hive_agents.ranking import RetrievalConfig

QUESTION = "major deviation - how many days has QA got to close it"
SELECTION = "of the {n} open queries, which it may learn from, the one whose nUDCG rises most"

REQUEST = {"request": "fewer distractors"}

READERS = {
    "dana": "the copilot shows passages of what its reader may view; dana is of Quality Assurance",
    "guest": "the same question of guest, who may not view that procedure: nothing hints at it",
}


@with_surface(workspace=False)
def command(
    surface: Surface,
    keep: Annotated[Path | None, typer.Option("--keep", metavar="DIR", help="Keep the workspace here.")] = None,
) -> None:
    """Run the main commands on a temporary copy of the sample workspace, with explanations."""
    import tempfile

    from hive_agents import Workspace
    from hive_agents.cli.sample import init_workspace

    with tempfile.TemporaryDirectory(prefix="hive-demo-") as folder:
        place = Workspace(init_workspace(keep or Path(folder) / "workspace"))
        result = Story(place, silent=surface.as_json or surface.quiet).run()
    surface.show(result)


class Story:
    """The steps of the demo: each shows a command, runs its code, and shows what it measured."""

    def __init__(self, workspace: Workspace, *, silent: bool) -> None:
        self.workspace = workspace
        self.out = console()
        self.silent = silent

    def say(self, *parts: Any) -> None:
        if not self.silent:
            for part in parts:
                self.out.print(part, soft_wrap=isinstance(part, str))

    def step(self, command: str, why: str) -> None:
        self.say("", styled(f"# {why}", "dim"), styled(f"$ {command}", "bold green"))

    def run(self) -> dict[str, Any]:
        index = self.index()
        before = self.evaluate("v1-naive", "what the naive config is worth: distractors count against it")
        optimized = self.optimize()
        changed = self.changed_most(optimized)
        if optimized["approval_id"]:
            self.approve(optimized["approval_id"], "it isn't proved: a person reads what readers lose, and takes it")
        gate = self.bad_deploy()
        if optimized["status"] in ("deployed", "escalated"):
            self.rollback()
        agent = self.agent()
        readers = {reader: self.chat(reader, why) for reader, why in READERS.items()}
        return {
            "index": index,
            "evaluation": before,
            "optimize": optimized,
            "changed_most": changed,
            "blocked": gate,
            "agent": agent,
            "chat": readers,
        }

    def index(self) -> dict[str, Any]:
        self.step("hive index", "embeddings come from the shipped cache")
        report = self.workspace.index()
        self.say(
            f"{report.documents} documents, {report.chunks} chunks, {report.embedded} embedded in {report.seconds} s"
        )
        return {"documents": report.documents, "chunks": report.chunks, "embedded": report.embedded}

    def changed_most(self, optimized: dict[str, Any]) -> dict[str, Any] | None:
        """Return the query that the new config improves most, before and after; None if the run kept its config.

        Also shows the gain over the holdout.
        """
        from hive_agents.evaluation import compare
        from hive_agents.optimizer import load_tuning

        before, after = (self.config(optimized[name]["config"]) for name in ("baseline", "best"))
        if before.name == after.name:
            self.say("no query changes: the run kept the config it began with")
            return None
        golden = load_tuning(self.workspace, None).queries
        comparison = compare(self.workspace.engine(), before, after, golden)
        pairs = zip(comparison.a.queries, comparison.b.queries, strict=True)
        old, new = max(pairs, key=lambda pair: pair[1].nudcg - pair[0].nudcg)
        rule = SELECTION.format(n=len(golden))
        value: dict[str, Any] = {"id": old.query.id, "query": old.query.query, "rule": rule}
        for name, config, scored in (("before", before, old), ("after", after, new)):
            self.step(f'hive query "{old.query.query}" --config {config.name}', rule if name == "before" else "and now")
            value[name] = {"config": config.name, "nudcg": scored.nudcg, "distractors": self.query(old.query, config)}
        self.say(
            f"nUDCG of this query {figure(old.nudcg)} -> {figure(new.nudcg)}; it is the best case, not the average"
        )
        certificate = optimized["certificate"]
        if certificate:
            gain = f"{figure(certificate['before'])} -> {figure(certificate['after'])}"
            signed = figure(certificate["difference"], signed=True)
            self.say(f"over the {certificate['n']} queries of the holdout, which nobody tuned on: {gain} ({signed})")
        return value

    def config(self, name: str) -> RetrievalConfig:
        from hive_agents.ranking import find_config

        return find_config(self.workspace, name).config

    def query(self, golden: GoldenQuery, config: RetrievalConfig) -> int:
        """Show the results of a query; return how many of them are distractors."""
        marks = {"relevant": ("answers it", "green"), "distractor": ("misleads: a distractor", "red")}
        hits = self.workspace.engine().search(golden.query, config).hits
        labels = [golden.label(hit.doc_id) for hit in hits]
        for hit, label in zip(hits, labels, strict=True):
            self.say(styled(f"{hit.rank:>3}  {hit.chunk_id:<44} ", "") + styled(*marks.get(label, ("", ""))))
        if not hits:
            self.say("nothing is returned" + ("" if golden.relevant else ": no document answers it"))
        return labels.count("distractor")

    def evaluate(self, config: str, why: str) -> dict[str, Any]:
        from hive_agents.evaluation import evaluate

        self.step(f"hive evaluate {config}", why)
        evaluation = evaluate(self.workspace, config)
        metrics = evaluation.metrics
        self.say(
            f"nUDCG {figure(metrics['nudcg'])}, nDCG {figure(metrics['ndcg'])}, recall {figure(metrics['recall'])},"
            f" {figure(metrics['distractors'], 2)} distractors a query, over {len(evaluation.queries)} queries"
        )
        return metrics

    def bad_deploy(self) -> dict[str, Any]:
        import json

        from hive_agents.base.files import atomic_write_text
        from hive_agents.cli.deploy import gate_parts
        from hive_agents.evaluation import load_golden
        from hive_agents.gate import deploy
        from hive_agents.ranking import named_config

        self.step("hive deploy careless", "somebody returns 20 results and trusts vectors alone: the gate measures it")
        careless = {
            "name": "careless",
            "collection": "knowledge-base",
            "retrieval": {"method": "vector", "top_k": 20},
        }
        atomic_write_text(self.workspace.configs / "careless.json", json.dumps(careless, indent=2) + "\n")
        outcome = deploy(self.workspace, named_config(self.workspace, "careless"), load_golden(self.workspace))
        self.say(*gate_parts(outcome.result))
        return {"decision": outcome.result.decision, "reasons": [reason.to_json() for reason in outcome.result.reasons]}

    def optimize(self) -> dict[str, Any]:
        from hive_agents.cli.optimize import Live, parts
        from hive_agents.optimizer import OptimizeRun

        self.step("hive optimize", "diagnose, try, measure; the step that costs readers nothing goes to the gate")
        live = None if self.silent else Live()
        run = OptimizeRun.start(self.workspace, golden=None, deploy=True, settings={})
        run.on_update = live.update if live else None
        result = run.go()
        self.say(*parts(result))
        return result

    def rollback(self) -> None:
        from hive_agents.gate import rollback

        self.step("hive rollback", "every deployment can be taken back")
        version, before = rollback(self.workspace, reason="demo")
        self.say(f"{version.name} is active again (before: {before})")

    def approve(self, request: str, why: str) -> None:
        from hive_agents.host import decide

        self.step(f"hive approvals approve {request} --as dana", why)
        decide(self.workspace, request, "approve", by="user:dana", authn="local")

    def agent(self) -> dict[str, Any]:
        """Run an agent whose model is a script; its tools, the approval and the gate are real."""
        from json import dumps

        from hive_agents.access import known_principal
        from hive_agents.agents import AgentRun, spec
        from hive_agents.cli.run import RunOutput, parts
        from hive_agents.runs import RunStore

        why = "an agent does it with tools; its model reads from a script here, and before the gate it asks a person"
        self.step(f"hive run optimizer --input '{dumps(REQUEST)}' --as root", why)
        agent = spec.load_agent(self.workspace, "optimizer").model_copy(
            update={"model": "scripted:scripts/optimizer.jsonl"}
        )
        run = AgentRun.start(self.workspace, agent, REQUEST, principal=known_principal(self.workspace, "root"))
        if not self.silent:
            run.on_event = RunOutput(set()).event
        result = run.go()
        for request in result["approval_ids"]:
            self.approve(request, "each look at the same holdout has to prove more")
        result = RunStore(self.workspace).get(run.run_id).result or result
        self.say(*(line for line in parts(result) if line.startswith((run.run_id, "decision"))))
        return {"run_id": result["run_id"], "status": result["status"], "outputs": result["outputs"]}

    def chat(self, reader: str, why: str) -> dict[str, Any]:
        import asyncio

        from hive_agents.access import known_principal
        from hive_agents.copilot import Chat, Request

        self.step(f'hive chat "{QUESTION}" --as {reader}', why)
        chat = Chat(self.workspace, known_principal(self.workspace, reader))
        reply = asyncio.run(chat.ask(Request(text=QUESTION)))
        doc_ids = [result["doc_id"] for result in reply["results"]]
        self.say(*results_table(reply["results"][:1]))
        self.say(*(styled(f"{rank:>3}  {doc_id}", "dim") for rank, doc_id in enumerate(doc_ids[1:3], start=2)))
        return {"status": reply["status"], "documents": doc_ids}
