from . import (
    deployed as deployed,
    fusion as fusion,
    pipeline as pipeline,
    silence as silence,
    stages as stages,
)
from .adaptive import (
    adaptive as adaptive,
)
from .check import (
    check_config as check_config,
    named_config as named_config,
    require_sound as require_sound,
    stored_from as stored_from,
)
from .config import (
    RetrievalConfig as RetrievalConfig,
    StoredConfig as StoredConfig,
    canonical_hash as canonical_hash,
    config_files as config_files,
    find_config as find_config,
    find_config_file as find_config_file,
    is_inside as is_inside,
    parse_config as parse_config,
    read_config as read_config,
)
from .cutoff import (
    Lists as Lists,
)
from .deployed import (
    Version as Version,
    active_config as active_config,
    find_active as find_active,
    follow_history as follow_history,
    versions as versions,
)
from .engine import (
    ConfigLike as ConfigLike,
    SearchEngine as SearchEngine,
)
from .explain import (
    explain_hit as explain_hit,
    explain_text as explain_text,
)
from .factors import (
    FACTORS as FACTORS,
)
from .fusion import (
    Floats as Floats,
    IntArray as IntArray,
)
from .hits import (
    Hit as Hit,
    Ranking as Ranking,
    present as present,
)
from .indexed import (
    build_index as build_index,
)
from .lift import (
    idf as idf,
    name_shares as name_shares,
)
from .pipeline import (
    needs_vectors as needs_vectors,
)
from .stages import (
    Search as Search,
)
