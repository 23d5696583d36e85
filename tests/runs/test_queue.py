"""Who is served next: questions before batches, then tenants and users by turns, whoever queued first."""

from __future__ import annotations

from hive_agents.runs import AGENT_GRAPH, CHAT_GRAPH, DueRun, in_turns


def due(name: str, tenant: str = "local", graph: str = AGENT_GRAPH) -> DueRun:
    return DueRun(name, name, graph, "queued", "", tenant, name.rstrip("0123456789"))


def served(*runs: DueRun, at_work: tuple[DueRun, ...] = ()) -> list[str]:
    return [run.run_id for run in in_turns(runs, at_work)]


def test_a_question_is_never_behind_a_batch() -> None:
    batch = [due(f"ann{number}") for number in range(120)]
    assert served(*batch, due("ben", graph=CHAT_GRAPH))[:2] == ["ben", "ann0"]
    assert served(*batch, due("ann900", graph=CHAT_GRAPH))[:2] == ["ann900", "ann0"]


def test_users_take_turns_and_age_decides_within_one() -> None:
    runs = [due("ann1"), due("ann2"), due("ann3"), due("ben1"), due("ben2"), due("cyd1")]
    assert served(*runs) == ["ann1", "ben1", "cyd1", "ann2", "ben2", "ann3"]


def test_a_tenant_of_many_users_has_no_more_turns_than_one_of_few() -> None:
    crowd = [due(f"{name}1", "acme") for name in ("ann", "ben", "cyd", "dan")]
    pair = due("eve1", "globex"), due("eve2", "globex")
    assert served(*crowd, *pair) == ["ann1", "eve1", "ben1", "eve2", "cyd1", "dan1"]


def test_who_has_runs_at_work_comes_after_who_has_none() -> None:
    runs = [due("ann3"), due("ben1")]
    assert served(*runs) == ["ann3", "ben1"]
    assert served(*runs, at_work=(due("ann1"), due("ann2"))) == ["ben1", "ann3"]
    assert served(*runs, due("fay1", "globex"), at_work=(due("ann1"), due("ben0"))) == ["fay1", "ann3", "ben1"]


def test_no_run_is_lost_and_none_comes_twice() -> None:
    runs = [due(f"{name}{number}", tenant) for tenant in "xy" for name in ("ann", "ben") for number in range(5)]
    assert sorted(served(*runs)) == sorted(run.run_id for run in runs)
    assert served() == []
