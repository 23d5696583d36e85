"""What the copilot says without a model: is it right, and can a reader find the answer in the first three excerpts?

    python benchmarks/answers.py [--into DIR] [--half tuning|other] [--body NAME] [--show] [--json FILE]

The questions stand in answers.jsonl, written by reading three bodies of documents: the sample workspace, Django's
documentation (fetched by pip), and manual pages with the text of pydoc, both from this machine. `answer` is a pattern
that the words of an answer match; null where the documents don't say it. Every second question of a body belongs to the
half that thresholds were chosen on; the figures that count are the other half's.

DIR keeps the three workspaces, so that a second run indexes nothing.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import importlib
import io
import json
import os
import pydoc
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hive_agents import Workspace
from hive_agents.access import Asker, Principal, known_principal
from hive_agents.cli.sample import init_workspace
from hive_agents.copilot import Request
from hive_agents.copilot.chat import Chat
from hive_agents.sync import import_documents

HERE = Path(__file__).parent
FETCH = HERE.parent / "examples" / "django_docs" / "fetch.py"
BODIES = ("sample", "django", "text")
MOST_WRONG, LEAST_READABLE = 2.0, 75.0  # per 100 questions; of 100 that have an answer
MODULES = """
argparse array ast base64 bisect calendar collections configparser contextlib copy csv ctypes dataclasses datetime
decimal difflib enum fileinput fnmatch fractions functools getpass glob gzip hashlib heapq hmac html http.client
imaplib io ipaddress itertools json logging mailbox math mimetypes operator os.path pathlib pickle platform pprint
queue random re sched secrets select shelve shlex shutil signal smtplib socket sqlite3 ssl statistics string struct
subprocess sys tarfile tempfile textwrap threading time timeit tomllib traceback types typing urllib.parse
urllib.request uuid warnings weakref webbrowser zipfile zlib"""
PAGES = """
apt apt-get apt_preferences ar bzip2 chmod chown cp curl cut date dd df diff dpkg du env file find flock fstab git
git-bisect git-clean git-commit git-log git-rebase git-stash grep gzip head hosts join kill less ln ls lsof make
mktemp mount mv nice nohup openssl passwd patch pgrep printf ps python3 regex resolv.conf rm rsync scp sed seq shadow
shuf signal sort split ssh ssh-agent ssh-keygen ssh_config stat stty su sudo tail tar tee time timeout touch tr umount
uniq unzip useradd watch wc wget xargs xz zip"""


@dataclass(frozen=True)
class Asked:
    """One question, and what came back."""

    question: dict[str, Any]
    reply: dict[str, Any]

    @property
    def answerable(self) -> bool:
        return self.question["answer"] is not None

    @property
    def answered(self) -> bool:
        return self.reply["status"] == "answered"

    @property
    def right(self) -> bool:
        return self.answered and self._says(self.reply["answer"])

    @property
    def readable(self) -> bool:
        return any(self._says(result["excerpt"]) for result in self.reply["results"][:3])

    def _says(self, text: str) -> bool:
        plain = re.sub(r"</?mark>", "", text)
        return self.answerable and re.search(self.question["answer"], plain, re.I) is not None


def bodies(root: Path, names: Iterable[str]) -> dict[str, tuple[Workspace, Principal]]:
    """Return the workspaces of these names below a folder, indexed, each with its reader."""
    made: dict[str, tuple[Workspace, Principal]] = {}
    fillers = {"django": _django, "text": _text}
    for name in names:
        fill = fillers.get(name)
        folder = root / name
        if not folder.exists():
            init_workspace(folder, empty=fill is not None)
            if fill is not None:
                fill(folder, root)
        place = Workspace(folder)
        place.index()
        made[name] = place, known_principal(place, "dana") if fill is None else Asker(place).reader()
    return made


def _django(folder: Path, _: Path) -> None:
    subprocess.run([sys.executable, FETCH, "--into", folder], check=True)


def _text(folder: Path, root: Path) -> None:
    for kind, pages in (("pydoc", _module_texts()), ("man", _manual_pages())):
        source = root / "texts" / kind
        source.mkdir(parents=True, exist_ok=True)
        for name, text in pages:
            (source / f"{name}.txt").write_text(text, encoding="utf-8")
        import_documents(Workspace(folder), [str(source)])


def _module_texts() -> Iterator[tuple[str, str]]:
    for name in MODULES.split():
        with contextlib.redirect_stdout(io.StringIO()):
            yield name, pydoc.render_doc(importlib.import_module(name), renderer=pydoc.plaintext)


def _manual_pages() -> Iterator[tuple[str, str]]:
    env = os.environ | {"LC_ALL": "C.UTF-8", "MANWIDTH": "80"}
    for name in PAGES.split():
        shown = subprocess.run(["man", name], capture_output=True, text=True, env=env, check=False).stdout
        if shown:
            yield name, re.sub(r".\x08", "", shown)


async def ask_all(questions: Sequence[dict[str, Any]], root: Path) -> list[Asked]:
    places = bodies(root, dict.fromkeys(question["body"] for question in questions))
    engines = {name: place.engine() for name, (place, _) in places.items()}
    asked = []
    for question in questions:
        place, reader = places[question["body"]]
        chat = Chat(place, reader, engine=engines[question["body"]])
        asked.append(Asked(question, await chat.ask(Request(text=question["question"]))))
    return asked


def figures(asked: Sequence[Asked]) -> dict[str, Any]:
    answerable = [each for each in asked if each.answerable]
    answered = [each for each in asked if each.answered]
    wrong = [each.question["id"] for each in answered if not each.right]
    return {
        "questions": len(asked),
        "answerable": len(answerable),
        "answered right": sum(each.right for each in asked),
        "wrong": wrong,
        "wrong of 100": round(100 * len(wrong) / max(1, len(asked)), 1),
        "share answered": round(100 * len(answered) / max(1, len(asked)), 1),
        "readable of 100": round(100 * sum(each.readable for each in answerable) / max(1, len(answerable)), 1),
        "unreadable": [each.question["id"] for each in answerable if not each.readable],
    }


def halves(questions: Sequence[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """Return every second question of those with and of those without an answer, body by body."""
    split: dict[str, list[dict[str, Any]]] = {"tuning": [], "other": []}
    seen: dict[tuple[str, bool], int] = {}
    for question in questions:
        kind = question["body"], question["answer"] is None
        split["tuning" if seen.get(kind, 0) % 2 == 0 else "other"].append(question)
        seen[kind] = seen.get(kind, 0) + 1
    return split


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--into", type=Path, help="a folder that keeps the workspaces")
    parser.add_argument("--half", choices=("tuning", "other"), help="ask these alone")
    parser.add_argument(
        "--body", choices=BODIES, action="append", help="ask about this one alone; several may be named"
    )
    parser.add_argument("--show", action="store_true", help="print what was said to each question of the tuning half")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    chosen = given.body or BODIES
    lines = (HERE / "answers.jsonl").read_text("utf-8").splitlines()
    questions = [question for line in lines if (question := json.loads(line))["body"] in chosen]
    asked_for = {name: half for name, half in halves(questions).items() if given.half in (None, name)}
    rows: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as scratch:
        for name, half in asked_for.items():
            asked = asyncio.run(ask_all(half, given.into or Path(scratch)))
            rows[name] = figures(asked)
            for body in chosen:
                rows[f"{name}: {body}"] = figures([each for each in asked if each.question["body"] == body])
            if given.show and name == "tuning":
                _show(asked)
    print(json.dumps(rows, indent=2))
    if given.json:
        given.json.write_text(json.dumps(rows, indent=2) + "\n", encoding="utf-8")
    reported = rows.get("other", rows.get("tuning"))
    return int(reported["wrong of 100"] > MOST_WRONG or reported["readable of 100"] < LEAST_READABLE)


def _show(asked: Sequence[Asked]) -> None:
    for each in asked:
        marks = f"{'right' if each.right else 'WRONG' if each.answered else '-':6}"
        marks += "readable" if each.readable else "UNREADABLE" if each.answerable else ""
        print(f"{each.question['id']} {marks:18} {each.question['question']}\n    answer: {each.reply['answer']}")
        if each.answerable and not each.readable:
            for result in each.reply["results"][:3]:
                print(f"    {result['chunk_id']}: {result['excerpt']}")


if __name__ == "__main__":
    sys.exit(main())
