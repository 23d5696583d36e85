from .diagnostics import (
    documented as documented,
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
    Unwritable as Unwritable,
    WorkerFault as WorkerFault,
    WrongUsage as WrongUsage,
    closest as closest,
    did_you_mean as did_you_mean,
    has_errors as has_errors,
)
from .resources import (
    bundled as bundled,
)
from .schemas import (
    KINDS as KINDS,
    json_schema as json_schema,
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
)
