"""What the copilot shows without a model: can a reader find the answer in the passages of the first three results?

    python benchmarks/answers.py [--into DIR] [--body NAME] [--show] [--json FILE]

The questions stand in answers.jsonl, written by reading three bodies of documents: the sample workspace, Django's
documentation (fetched by pip), and manual pages with the text of pydoc, both from this machine. `answer` is a pattern
that the words of an answer match; null where the documents don't say it.

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
from hive_agents.sync.importing import import_documents

HERE = Path(__file__).parent
FETCH = HERE.parent / "examples" / "django_docs" / "fetch.py"
BODIES = ("sample", "django", "text")
LEAST_READABLE = 75.0  # of 100 questions that have an answer
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
    """One question, and what came back, as it is and with more of each passage."""

    question: dict[str, Any]
    folded: dict[str, Any]
    unfolded: dict[str, Any]

    @property
    def answerable(self) -> bool:
        return self.question["answer"] is not None

    def is_readable(self, reply: dict[str, Any]) -> bool:
        texts = [re.sub(r"</?mark>", "", result["excerpt"]) for result in reply["results"][:3]]
        return self.answerable and any(re.search(self.question["answer"], text, re.I) for text in texts)


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
            yield name, pydoc.render_doc(importlib.import_module(name), renderer=pydoc.plaintext)  # type: ignore[attr-defined]


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
        reply = await chat.ask(Request(text=question["question"]))
        asked.append(Asked(question, reply, chat.render(reply["run_id"], unfold=True)))
    return asked


def figures(asked: Sequence[Asked]) -> dict[str, Any]:
    answerable = [each for each in asked if each.answerable]
    unreadable = [each.question["id"] for each in answerable if not each.is_readable(each.folded)]
    readable = len(answerable) - len(unreadable)
    return {
        "questions": len(asked),
        "answerable": len(answerable),
        "readable": readable,
        "readable unfolded": sum(each.is_readable(each.unfolded) for each in answerable),
        "readable of 100": round(100 * readable / max(1, len(answerable)), 1),
        "nothing shown, unanswerable": sum(not each.folded["results"] for each in asked if not each.answerable),
        "unreadable": unreadable,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--into", type=Path, help="a folder that keeps the workspaces")
    parser.add_argument(
        "--body", choices=BODIES, action="append", help="ask about this one alone; several may be named"
    )
    parser.add_argument("--show", action="store_true", help="print what was shown where the answer can't be read")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    chosen = given.body or BODIES
    lines = (HERE / "answers.jsonl").read_text("utf-8").splitlines()
    questions = [question for line in lines if (question := json.loads(line))["body"] in chosen]
    with tempfile.TemporaryDirectory() as scratch:
        asked = asyncio.run(ask_all(questions, given.into or Path(scratch)))
    rows = {"all": figures(asked)}
    rows |= {body: figures([each for each in asked if each.question["body"] == body]) for body in chosen}
    for each in asked if given.show else ():
        if each.answerable and not each.is_readable(each.folded):
            print(f"{each.question['id']} {each.question['question']}")
            for result in each.folded["results"][:3]:
                print(f"    {result['chunk_id']}: {result['excerpt']}")
    print(json.dumps(rows, indent=2))
    if given.json:
        given.json.write_text(json.dumps(rows, indent=2) + "\n", encoding="utf-8")
    return int(rows["all"]["readable of 100"] < LEAST_READABLE)


if __name__ == "__main__":
    sys.exit(main())
