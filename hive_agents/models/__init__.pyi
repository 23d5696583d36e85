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
from .probing import (
    TAKE_A_LARGER as TAKE_A_LARGER,
    Tried as Tried,
    configured_chat as configured_chat,
    is_fit as is_fit,
    probed as probed,
    told_of as told_of,
    tried_embedding as tried_embedding,
    tried_reranker as tried_reranker,
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
