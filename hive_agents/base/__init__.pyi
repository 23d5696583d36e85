from . import (
    resources as resources,
    schemas as schemas,
)
from .errors import (
    AuditFault as AuditFault,
    Busy as Busy,
    Damaged as Damaged,
    Diagnostic as Diagnostic,
    EngineFault as EngineFault,
    HiveError as HiveError,
    NewerRelease as NewerRelease,
    NoModel as NoModel,
    NoSecret as NoSecret,
    NotFound as NotFound,
    Outage as Outage,
    RefusedInput as RefusedInput,
    RightsWithdrawn as RightsWithdrawn,
    Severity as Severity,
    Stale as Stale,
    Taken as Taken,
    TooMany as TooMany,
    Unindexed as Unindexed,
    Unwritable as Unwritable,
    WorkerFault as WorkerFault,
    WrongUsage as WrongUsage,
    closest as closest,
    did_you_mean as did_you_mean,
    has_errors as has_errors,
)
from .once import (
    cached_property as cached_property,
)
from .resources import (
    bundled as bundled,
)
from .text import (
    UNSEEN as UNSEEN,
    count as count,
    cut as cut,
    encodable as encodable,
    fenced as fenced,
    hides as hides,
    listed as listed,
    one_line as one_line,
    safe_line as safe_line,
    safe_text as safe_text,
    sha256 as sha256,
    shown as shown,
    spelled as spelled,
    spelled_json as spelled_json,
    unfetched as unfetched,
)
