"""Answers without a model: from the data in the asker's scope, by fixed commands."""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING, Any

from hive_agents.base import HiveError, closest, count, listed, one_line
from hive_agents.runs import ACTIVE
from hive_agents.supervision.queen.colony import MOST, Colony
from hive_agents.supervision.queen.commands import Intent, means_all, target, understand
from hive_agents.supervision.queen.reply import Reply, done_line, event_line, request_line, run_line, ticket_line
from hive_agents.supervision.queen.workers import Worker, pick

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hive_agents.runs import RunRow

SHOWN = 20
HELP = (
    "I answer: what is running · why is RUN stuck · what is waiting for me · the tickets · what did it cost · "
    "which agent can … · what did you do.",
    'I do: stop, pause or resume RUN · start AGENT with {"input": "…"} · tell RUN: words. '
    "RUN is a run's id or its agent's name; \"it\" is the run we last spoke of.",
)


class Answers:
    """Answers to one asker; `last` are the runs last mentioned, `asked` the open question to the asker."""

    def __init__(self, colony: Colony, last: Sequence[str] = (), asked: dict[str, Any] | None = None) -> None:
        self.colony, self.last, self.asked = colony, last, asked
        self.reply = Reply()

    async def answer(self, text: str) -> Reply:
        """Return the reply to one message; forbidden actions and unknown names are explained in words."""
        intent = self._chosen(text) or understand(text)
        try:
            if intent.verb == "start":
                await self._start(intent)
            elif intent.verb in ("stop", "pause", "resume", "tell"):
                await asyncio.to_thread(self._change, intent)
            else:
                await asyncio.to_thread(getattr(self, f"_{intent.verb}"), intent)
        except HiveError as error:
            first = error.diagnostics[0]
            self.reply.say(f"{one_line(first.message)}." + (f" {one_line(first.fix)}." if first.fix else ""))
        return self.reply

    def _chosen(self, text: str) -> Intent | None:
        """Return the earlier intent, now that the asker has chosen an option."""
        if self.asked is None:
            return None
        options, choice = self.asked["options"], text.strip(" .!")
        number = int(choice) if choice.isdecimal() and len(choice) < 4 else 0
        if 1 <= number <= len(options):
            choice = options[number - 1]
        if len(options) == 1 and choice.casefold() == "yes":
            choice = options[0]
        return Intent(self.asked["verb"], choice, self.asked["words"]) if choice in options else None

    # Questions

    def _help(self, intent: Intent) -> None:
        self.reply.say(*HELP)

    def _unknown(self, intent: Intent) -> None:
        self.reply.say("I didn't understand that, and did nothing.", *HELP)

    def _list(self, intent: Intent) -> None:
        status = intent.about.casefold()
        active = status in ("", "active", "running")
        rows = self.colony.runs(ACTIVE if active else status)
        which = "active" if active else status
        are = "is" if len(rows) == 1 else "are"
        self._runs(rows, f"{count(len(rows), 'run')} {are} {which}", f"No run is {which}.")

    def _why(self, intent: Intent) -> None:
        row = self._meant(intent)
        if row is None:
            return
        self.reply.speak_of(row).say(run_line(row))
        for ticket in self.colony.tickets():
            if ticket.run_id == row.run_id:
                self.reply.say(f"Ticket, {ticket_line(ticket)}; suggested: {one_line(ticket.suggested_action)}")
        for request in self.colony.waiting_for(row.run_id):
            self.reply.say(f"It waits for a person: {request_line(request)}")
        events = self.colony.log(row.run_id, 5)
        if events:
            self.reply.say("Last events, as the run tells them:", *(f"  {event_line(one)}" for one in events))

    def _tickets(self, intent: Intent) -> None:
        found = self.colony.tickets()
        self.reply.say(f"{count(len(found), 'open ticket')}{':' if found else '.'}")
        self.reply.say(*(f"  {ticket_line(one)}" for one in found[:SHOWN]))
        self.reply.runs += [one.run_id for one in found[:SHOWN] if one.run_id not in self.reply.runs]

    def _waiting(self, intent: Intent) -> None:
        found, n = self.colony.waiting(SHOWN)
        self.reply.say(f"{count(n, 'request')} {'waits' if n == 1 else 'wait'} for a person.")
        self.reply.say(*(f"  {request_line(one)}" for one in found))
        rows = self.colony.runs(("waiting", "paused"))
        if rows:
            self._runs(rows, f"{count(len(rows), 'run')} waiting or paused", "")

    def _spend(self, intent: Intent) -> None:
        rows = self.colony.runs()
        totals: dict[str, list[float]] = {}
        for row in rows:
            total = totals.setdefault(row.agent or row.graph, [0, 0, 0.0])
            for place, amount in enumerate((1, row.summary["tokens"], row.summary["usd"])):
                total[place] += amount
        tokens, usd = (sum(total[place] for total in totals.values()) for place in (1, 2))
        which = f"The last {MOST} runs" if len(rows) == MOST else count(len(rows), "run")
        self.reply.say(f"{which}: {tokens:,.0f} tokens, ${usd:.4f}.")
        for name, (runs, spent, dollars) in sorted(totals.items(), key=lambda one: (-one[1][2], -one[1][1], one[0])):
            self.reply.say(f"  {name}: {count(int(runs), 'run')}, {spent:,.0f} tokens, ${dollars:.4f}")

    def _workers(self, intent: Intent) -> None:
        workers = self.colony.workers()
        fit = pick(intent.about, workers)
        known = f"{count(len(workers), 'agent')}{':' if workers else '.'}"
        unfit = (
            f"No agent here can do that. There {'is' if len(workers) == 1 else 'are'} {known}"
            if intent.about
            else known
        )
        self.reply.say("These fit best:" if fit else unfit)
        for one in (fit or workers)[:SHOWN]:
            inputs = f"; inputs: {', '.join(one.inputs)}" if one.inputs else ""
            self.reply.say(f"  {one.id} ({one.capability}): {one_line(one.about)}{inputs}")

    def _actions(self, intent: Intent) -> None:
        found = self.colony.actions()
        self.reply.say(f"My last {count(len(found), 'action')}:" if found else "I did nothing of my own accord.")
        for one in found:
            self.reply.say(f"  {one.at[:16].replace('T', ' ')} {one.run_id}: {one.action}, {one.status}")

    # Commands

    def _change(self, intent: Intent) -> None:
        verb = intent.verb
        if means_all(intent.about):
            rows = self.colony.runs(ACTIVE)
            self.reply.say(f"I {verb} one run at a time: name it.")
            self._runs(rows, f"{count(len(rows), 'run')} active", "No run is active.")
            return
        row = self._meant(intent)
        if row is None:
            return
        if verb == "tell":
            self._did("steer", self.colony.steer(row.run_id, intent.words))
        else:
            self._did(verb, getattr(self.colony, verb)(row.run_id))

    async def _start(self, intent: Intent) -> None:
        workers = {one.id: one for one in await asyncio.to_thread(self.colony.workers)}
        if intent.inputs is not None and intent.about in workers and not intent.asks:
            self._did("start", await self.colony.start(intent.about, intent.inputs))
        else:
            self.reply.say(await asyncio.to_thread(self._not_started, intent, workers))

    def _not_started(self, intent: Intent, workers: dict[str, Worker]) -> str:
        """Return why the agent wasn't started, and which could be."""
        if intent.inputs is None:
            return 'The inputs are no JSON object: say start AGENT with {"input": "…"}.'
        if intent.about in workers:
            return f"I start nothing on a question: say start {intent.about}, with its inputs."
        if any(row.run_id == intent.about for row in self.colony.runs()):
            return f"{intent.about} is a run that is there already: say resume {intent.about}."
        fit = [one.id for one in pick(intent.about, list(workers.values()))[:3]]
        guess = closest(intent.about, workers)
        options = fit or ([guess] if guess else sorted(workers)[:SHOWN])
        named = f" Do you mean {listed(options)}?" if options else ""
        return f'There is no agent "{one_line(intent.about, 60)}".{named}'

    def _decide(self, intent: Intent) -> None:
        found = re.search(r"\ba[0-9a-f-]{0,60}\d[0-9a-f]*\b", intent.about)
        name = found[0] if found else "ID"
        self.reply.say(
            "I can't decide what a person must.",
            f"Read it with `hive approvals show {name}`, then `hive approvals approve {name}`, or reject, or respond.",
        )

    def _did(self, action: str, row: RunRow) -> None:
        self.reply.did(action, row).say(done_line(action, row))

    def _meant(self, intent: Intent) -> RunRow | None:
        """Return the run that a text names; an ambiguous one becomes a question to the asker."""
        found = target(intent.about, self.colony.runs(), self.last)
        if found.unknown is not None:
            self.reply.say(f"There is no run {found.unknown} that you may see.")
            return None
        if found.run is not None and not (intent.asks and intent.verb != "why"):
            return found.run
        options = [found.run] if found.run is not None else found.options[:SHOWN]
        if intent.verb == "why" and len(options) == 1:
            return options[0]
        if not options:
            self.reply.say("I don't know which run you mean, and none is active.")
            return None
        self._runs(options, "Do you mean this run" if found.run else "Which run do you mean", "", numbered=True)
        ids = [row.run_id for row in options]
        self.reply.say(f"Say {listed([f'{intent.verb} {one}' for one in ids[:3]])}, or its number.")
        self.reply.asked = {"verb": intent.verb, "options": ids, "words": intent.words}
        self.reply.runs = []
        return None

    def _runs(self, rows: list[RunRow], title: str, none: str, *, numbered: bool = False) -> None:
        if not rows:
            self.reply.say(none)
            return
        self.reply.say(f"{title}{'?' if numbered else ':'}").speak_of(*rows[:SHOWN])
        for number, row in enumerate(rows[:SHOWN], start=1):
            self.reply.say(f"  {f'{number}. ' if numbered else ''}{run_line(row)}")
        if len(rows) > SHOWN:
            self.reply.say(f"  and {len(rows) - SHOWN} more: hive runs")
