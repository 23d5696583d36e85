"""What follows a document that moves: its labels in golden sets, and grants to it alone."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from contextlib import suppress

from hive_agents.base import HiveError
from hive_agents.base.files import atomic_write_text, jsontext
from hive_agents.documents.labels import MOVED_DOCUMENTS, golden_text, move_labels
from hive_agents.store import audit
from hive_agents.workspace import Workspace


def follow_moves(workspace: Workspace, moves: Mapping[str, str], *, grants: bool = True) -> dict[str, int]:
    """Let labels and, with `grants`, grants to one document alone follow documents to their new doc_ids.

    It returns how many labels changed, by golden set; called again, it changes nothing. The audit log records it once,
    so that a golden set that was accepted stays accepted, and feedback finds its document. The caller holds the
    workspace's lock.
    """
    if not moves:
        return {}
    last = audit.recorded(workspace, MOVED_DOCUMENTS)[-1:]
    if not any(moves.items() <= entry["moves"].items() for entry in last):
        # Before the files: were this the end, the labels would follow at the next call.
        audit.append(workspace, MOVED_DOCUMENTS, moves=dict(moves))
    labelled = {}
    for path in sorted((workspace.root / "evals").glob("*.json")):
        file = workspace.relative(path)
        with suppress(HiveError):  # a broken one is told by whoever measures with it
            value = jsontext.parse(jsontext.load_text(path, file), file)
            if changed := move_labels(value, moves):
                atomic_write_text(path, golden_text(value))
                labelled[file] = changed
    if grants:
        _move_grants(workspace, moves)
    return labelled


def _move_grants(workspace: Workspace, moves: Mapping[str, str]) -> None:
    """Change grants whose `match` is a moved document itself; what a glob matches is the folder's to say."""

    def moved(match: re.Match[str]) -> str:
        doc_id = json.loads(match[2])
        return match[1] + json.dumps(moves[doc_id], ensure_ascii=False) if doc_id in moves else match[0]

    for path in sorted((workspace.root / "access").glob("*.json")):
        with suppress(HiveError, ValueError):
            text = jsontext.load_text(path, workspace.relative(path))
            changed = re.sub(r'("match"\s*:\s*)("(?:[^"\\\n]|\\.)*")', moved, text)
            if changed != text:
                atomic_write_text(path, changed)
