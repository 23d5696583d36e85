"""A user's own files become documents: each kind as Markdown, with a report of what could not be read."""

from hive_agents.importing.conversion import KINDS, convert
from hive_agents.importing.files import ImportReport, Skipped, import_files
from hive_agents.importing.imported import Imported, ImportFailure

__all__ = ["KINDS", "ImportFailure", "ImportReport", "Imported", "Skipped", "convert", "import_files"]
