from . import (
    atomic as atomic,
    formats as formats,
    frontmatter as frontmatter,
    guarded as guarded,
    jsontext as jsontext,
    sandbox as sandbox,
)
from .atomic import (
    atomic_write as atomic_write,
    atomic_write_text as atomic_write_text,
    disk_errors as disk_errors,
    locked as locked,
)
from .formats import (
    NAME_PATTERN as NAME_PATTERN,
    Amount as Amount,
    AnyCase as AnyCase,
    Count as Count,
    FileFormat as FileFormat,
    Format as Format,
    Name as Name,
    diagnostics_of as diagnostics_of,
    load as load,
    load_value as load_value,
)
from .guarded import (
    Exceeded as Exceeded,
    make_folder as make_folder,
    opened as opened,
    read_bytes as read_bytes,
    remove as remove,
    unlinked as unlinked,
)
from .lengths import (
    LONGEST_REFERENCE as LONGEST_REFERENCE,
    FewEntries as FewEntries,
    LongText as LongText,
    QuestionText as QuestionText,
    Reference as Reference,
    ShortName as ShortName,
    require_short as require_short,
)
