"""Files that people and programs share: atomic writes and locks, strict JSON, models of formats, front matter.

It imports only `hive_agents.errors`, and knows of no workspace. What holds for every file, whatever it is about, goes
here: writing and locking into `atomic`, the syntax of a format into a file of its own, what all models of files have
in common into `formats`.
"""

from typing import TYPE_CHECKING

from hive_agents.lazy import lazy

if TYPE_CHECKING:
    from hive_agents.files import formats, frontmatter, jsontext
    from hive_agents.files.atomic import (
        append_line,
        atomic_symlink,
        atomic_write,
        atomic_write_text,
        disk_errors,
        locked,
    )
    from hive_agents.files.formats import (
        NAME_PATTERN,
        AnyCase,
        ConfigName,
        FileFormat,
        Format,
        Name,
        diagnostics_of,
        load,
        load_value,
    )

__all__ = [
    "NAME_PATTERN",
    "AnyCase",
    "ConfigName",
    "FileFormat",
    "Format",
    "Name",
    "append_line",
    "atomic_symlink",
    "atomic_write",
    "atomic_write_text",
    "diagnostics_of",
    "disk_errors",
    "formats",
    "frontmatter",
    "jsontext",
    "load",
    "load_value",
    "locked",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy(
        __name__,
        {
            "atomic": "append_line atomic_symlink atomic_write atomic_write_text disk_errors locked",
            "formats": "NAME_PATTERN AnyCase ConfigName FileFormat Format Name diagnostics_of load load_value",
        },
        modules=("formats", "frontmatter", "jsontext"),
    )
