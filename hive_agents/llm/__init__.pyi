from . import (
    json_schema as json_schema,
)
from .abilities import (
    AbilityFile as AbilityFile,
)
from .bedrock import (
    attempts_until as attempts_until,
    failure as failure,
    open_client as open_client,
)
from .breaker import (
    breaker_of as breaker_of,
    forget_breakers as forget_breakers,
    resting as resting,
)
from .chain import (
    Chain as Chain,
    Meter as Meter,
    open_chain as open_chain,
    price_of as price_of,
    require_prices as require_prices,
)
from .endpoint import (
    Endpoint as Endpoint,
    open_endpoint as open_endpoint,
)
from .json_schema import (
    defects as defects,
    faults as faults,
)
from .model import (
    ChatDelta as ChatDelta,
    ChatModel as ChatModel,
    ChatResult as ChatResult,
    ErrorKind as ErrorKind,
    Message as Message,
    ModelError as ModelError,
    Tell as Tell,
    Tool as Tool,
    ToolCall as ToolCall,
    Usage as Usage,
    sending as sending,
)
from .outages import (
    is_outage as is_outage,
)
from .prices import (
    estimated_usage as estimated_usage,
)
from .probe import (
    Probe as Probe,
    probe as probe,
)
from .scripted import (
    Line as Line,
    Script as Script,
    ScriptedModel as ScriptedModel,
)
from .structured import (
    IN_WORDS as IN_WORDS,
    validated as validated,
)
from .threads import (
    in_thread as in_thread,
    waited as waited,
)
