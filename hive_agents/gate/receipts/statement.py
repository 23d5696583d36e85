"""The format of receipts: in-toto Statement v1, with the same bytes for the same facts."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from pydantic import Field

from hive_agents.base import HiveError
from hive_agents.base.files import Format, load, read_bytes

STATEMENT_TYPE = "https://in-toto.io/Statement/v1"

ReceiptKind = Literal["answer", "decision", "deployment", "gate"]
PredicateType = Literal[
    "urn:hive-agents:receipt:answer:1",
    "urn:hive-agents:receipt:decision:1",
    "urn:hive-agents:receipt:deployment:1",
    "urn:hive-agents:receipt:gate:1",
]
_KINDS: Mapping[PredicateType, ReceiptKind] = dict(zip(get_args(PredicateType), get_args(ReceiptKind), strict=True))
Agreement = Literal["same", "differs", "unknown"]


class _Subject(Format):
    name: str
    digest: dict[str, str]


class _Statement(Format):
    type_: Literal["https://in-toto.io/Statement/v1"] = Field(alias="_type")
    subject: list[_Subject]
    predicateType: PredicateType
    predicate: dict[str, Any]


@dataclass(frozen=True)
class Receipt:
    """A receipt: `subjects` maps names to SHA-256 in hex; `facts` are hashes, ids and figures without texts.

    It has no time of creation: made again from the same records, it has the same bytes.
    Source: in-toto Attestation Framework, Statement v1.
    """

    kind: ReceiptKind
    subjects: Mapping[str, str]
    facts: Mapping[str, Any]

    def to_json(self) -> dict[str, Any]:
        subjects = [{"name": name, "digest": {"sha256": digest}} for name, digest in sorted(self.subjects.items())]
        return {
            "_type": STATEMENT_TYPE,
            "subject": subjects,
            "predicateType": f"urn:hive-agents:receipt:{self.kind}:1",
            "predicate": dict(self.facts),
        }

    @property
    def text(self) -> str:
        """The receipt's file: JSON with sorted keys, and a newline at its end."""
        return json.dumps(self.to_json(), ensure_ascii=False, indent=2, sort_keys=True) + "\n"

    @classmethod
    def read(cls, path: Path) -> Receipt:
        """Return the receipt in a file. Raises: HIVE-409 for one that can't be read, diagnostics of level 1."""
        try:
            data = read_bytes(path)
        except OSError as error:
            message = f"{path} can't be read: {error.strerror}"
            raise HiveError.of("HIVE-409", message, fix="name a file that `hive receipt` wrote") from None
        found = load(_Statement, data, path.name)
        subjects = {one.name: one.digest.get("sha256", "") for one in found.subject}
        return cls(_KINDS[found.predicateType], subjects, found.predicate)


@dataclass(frozen=True)
class Rederived:
    """The check of one fact: `same`, `differs`, or `unknown` where it can't be derived any more.

    `told` is the reason, in words, unless it is `same`.
    """

    name: str
    outcome: Agreement
    told: str = ""

    @classmethod
    def of(cls, name: str, same: bool, otherwise: str) -> Rederived:
        return cls(name, "same") if same else cls(name, "differs", otherwise)

    def to_json(self) -> dict[str, str]:
        return {"name": self.name, "outcome": self.outcome, "told": self.told}


def compared(receipt: Receipt, again: Receipt) -> Iterator[Rederived]:
    """Yield a check for each subject and fact: what the receipt says against what the records say now."""
    for name in sorted({*receipt.subjects, *again.subjects}):
        same = receipt.subjects.get(name) == again.subjects.get(name)
        yield Rederived.of(f"subject {name}", same, "the records say another hash")
    for name in sorted({*receipt.facts, *again.facts}):
        same = receipt.facts.get(name) == again.facts.get(name)
        yield Rederived.of(f"record: {name}", same, "the records say something else")
