from . import (
    probing as probing,
    prompts as prompts,
)
from .breaker import (
    resting as resting,
)
from .chain import (
    Chain as Chain,
    Meter as Meter,
    open_chain as open_chain,
    price_of as price_of,
    require_prices as require_prices,
)
from .langchain import (
    is_outage as is_outage,
)
from .model import (
    ChatDelta as ChatDelta,
    ChatModel as ChatModel,
    ChatResult as ChatResult,
    Message as Message,
    ModelError as ModelError,
    Tell as Tell,
    Tool as Tool,
    ToolCall as ToolCall,
    Usage as Usage,
    sending as sending,
)
from .prices import (
    estimated_usage as estimated_usage,
)
from .probe import (
    Probe as Probe,
)
from .scripted import (
    Line as Line,
    Script as Script,
)
from .structured import (
    IN_WORDS as IN_WORDS,
    validated as validated,
)
from .telemetry import (
    span as span,
    tracing as tracing,
    untraced as untraced,
)
from .threads import (
    in_thread as in_thread,
    waited as waited,
)
