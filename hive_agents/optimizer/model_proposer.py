"""A proposer that asks a chat model, backed by the heuristic one."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Coroutine
from functools import cache
from threading import Thread
from typing import Any, TypeVar

from hive_agents.base import HiveError, one_line
from hive_agents.models import Chain, Message, ModelError, open_chain
from hive_agents.optimizer.briefing import briefing
from hive_agents.optimizer.model_answer import REASON_LENGTH, SCHEMA, FaultsOf, diagnostic_line, edit_of
from hive_agents.optimizer.proposal import HeuristicProposer, Proposed, Situation
from hive_agents.optimizer.space import Edit, apply, identity
from hive_agents.optimizer.spending import Spending
from hive_agents.workspace import Workspace, is_trusted
from hive_agents.workspace.settings import Optimizer

MOST = 4
"""The most edits of a model; they stand beside the heuristic's, under the same rule."""

SEND_BACKS = 2
FAILURES = 2
"""After so many failures in a row this process doesn't ask the model again."""

_AGAIN = (
    "These patches can't be used. Mend them, or propose others in their place; the rest is taken, so leave it out.\n"
)
T = TypeVar("T")


class NoAnswer(Exception):
    """The model gave no usable answer; the message says why."""


class ModelProposer:
    """`faults` returns what levels 1 and 2 find wrong with an edit; a given `chain` counts with `spending`'s meter."""

    def __init__(
        self,
        workspace: Workspace,
        settings: Optimizer,
        spending: Spending,
        faults: FaultsOf,
        *,
        chain: Chain | None = None,
    ) -> None:
        self._workspace, self._settings, self._spending, self._faults = workspace, settings, spending, faults
        self._chain = chain
        self._heuristic = HeuristicProposer()
        self._failures = 0
        self._dead = ""

    def propose(self, situation: Situation) -> Proposed:
        """Return the model's sound edits before the heuristic's; without sound ones, the heuristic's alone."""
        heuristic = self._heuristic.propose(situation)  # first: a spent budget ends the run before a model is paid
        sound, faulty, why = self._model_edits(situation)
        if not sound:
            nothing = "none of the model's patches could be used" if faulty else "the model proposed nothing"
            return Proposed((*heuristic.edits, *faulty), why or nothing)
        proposed = {identity(apply(situation.config, edit.values)) for edit in sound}
        rest = [edit for edit in heuristic.edits if identity(apply(situation.config, edit.values)) not in proposed]
        return Proposed((*sound, *rest, *faulty))

    def _model_edits(self, situation: Situation) -> tuple[list[Edit], list[Edit], str | None]:
        """Return the model's sound edits, its faulty ones, and why it gave no answer, if it didn't."""
        sound: list[Edit] = []
        faulty: list[Edit] = []
        tried = {*situation.tried, identity(situation.config.model_dump(exclude_unset=True))}
        try:
            share_text = self._settings.share_text and is_trusted(self._workspace, "optimizer.share_text")
            turns = [
                Message(role="user", content=briefing(situation, self._workspace, most=MOST, share_text=share_text))
            ]
            for _ in range(1 + SEND_BACKS):
                answer = self._complete(turns, situation)
                patches = answer["patches"][: MOST - len(sound)]
                edits = [edit_of(patch, situation, tried, self._faults) for patch in patches]
                sound += [edit for edit in edits if not edit.faults]
                faulty = [edit for edit in edits if edit.faults]
                if not faulty:
                    break
                wrong = [
                    {**patch, "wrong": edit.faults} for patch, edit in zip(patches, edits, strict=True) if edit.faults
                ]
                turns += [
                    Message(role="assistant", content=json.dumps(answer)),
                    Message(role="user", content=_AGAIN + json.dumps(wrong, indent=1)),
                ]
        except NoAnswer as failed:
            return sound, faulty, str(failed)
        except HiveError as error:  # the workspace's own prompt
            return sound, faulty, diagnostic_line(error.diagnostics[0])
        return sound, faulty, None

    def _complete(self, turns: list[Message], situation: Situation) -> dict[str, Any]:
        """Return the answer to one call. Raises: NoAnswer."""
        if self._dead:
            raise NoAnswer(f"not asked again after {self._dead}")
        if self._spending.refusal:
            raise NoAnswer(self._spending.refusal)
        try:
            chain = self._open()
            budget = situation.cache.budget
            remaining = chain.deadline if budget is None else max(budget.max_seconds - budget.seconds, 0.1)
            deadline = min(chain.deadline, remaining)
            self._spending.reserve()
            answer = _waited(chain.complete(turns, schema=SCHEMA, deadline=deadline)).structured
        except ModelError as error:
            kind = f"unavailable ({error.kind})" if error.outage else error.kind
            raise self._failed(f"{kind}: {error.message}", for_good=error.kind == "authentication") from None
        except HiveError as error:
            raise self._failed(error.diagnostics[0].message, for_good=True) from None
        except Exception as error:  # a fault of a provider's package must not end the run
            raise self._failed(f"{type(error).__name__}: {error}") from error
        finally:
            self._spending.record()
        if answer is None:
            raise NoAnswer("the model called a tool that it doesn't have")
        self._failures = 0
        return answer

    def _failed(self, why: str, *, for_good: bool = False) -> NoAnswer:
        self._failures += 1
        if for_good or self._failures >= FAILURES:
            self._dead = one_line(why, REASON_LENGTH)
        return NoAnswer(one_line(why, REASON_LENGTH))

    def _open(self) -> Chain:
        if self._chain is None:
            settings = self._workspace.settings
            names = settings.models.of("optimizer")
            self._chain = open_chain(names, settings, meter=self._spending.meter, workspace=self._workspace)
        return self._chain


def _waited(call: Coroutine[Any, Any, T]) -> T:
    """Return the result of a coroutine that runs on the shared loop; Ctrl-C cancels it."""
    future = asyncio.run_coroutine_threadsafe(call, _loop())
    try:
        return future.result()
    except BaseException:
        future.cancel()
        raise


@cache
def _loop() -> asyncio.AbstractEventLoop:
    """Return the loop of all calls, in a thread: clients keep connections, and the caller may be in a running loop."""
    loop = asyncio.new_event_loop()
    Thread(target=loop.run_forever, name="hive-proposer", daemon=True).start()
    return loop
