"""Uploads on their way to documents, as far as a caller may be told of them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from hive_agents.access import AccessLabels, AccessRules, ViewGate, labels_in_file
from hive_agents.host import DocumentImport, DocumentImports, ImportedUpload
from hive_agents.server.account import tenant_of

if TYPE_CHECKING:
    from hive_agents.server.auth import CallContext

NOBODY = ""
"""The tenant of no import."""


def seen_imports(call: CallContext) -> list[DocumentImport]:
    """Return the imports of the last month with the files that the caller sent or may view, newest first."""
    return _seen(call, DocumentImports(call.workspace).recent(tenant_of(call)))


def seen_import(call: CallContext, import_id: str) -> DocumentImport:
    """Return an import. Raises: HIVE-409 (404) for one of which the caller sees nothing, alike for an unknown one."""
    imports = DocumentImports(call.workspace)
    found = _seen(call, [imports.get(import_id, tenant_of(call))])
    return found[0] if found else imports.get(import_id, NOBODY)


def _seen(call: CallContext, imports: list[DocumentImport]) -> list[DocumentImport]:
    """Return the imports, each with those of its files that the caller sent or may view: by its document, or where it
    became none, by whom it is meant for."""
    who = call.principal
    if tenant_of(call) is None:
        return imports
    theirs = {file.doc_id for one in imports if one.sender.user != who.user for file in one.files}
    allowed = ViewGate.of(call.workspace, who).allowed(sorted(theirs))
    rules = AccessRules.load(call.workspace)
    decides = not (call.workspace.settings.access.service_url or rules.faults)

    def sees(made: DocumentImport, file: ImportedUpload) -> bool:
        if made.sender.user == who.user or (file.status == "indexed" and file.doc_id in allowed):
            return True
        meant = decides and rules.may_view(who, file.doc_id, AccessLabels.of(made.labels))
        return meant and (file.doc_id in allowed or labels_in_file(call.workspace, file.doc_id) is None)

    shown = [replace(one, files=tuple(file for file in one.files if sees(one, file))) for one in imports]
    return [one for one in shown if one.files]
