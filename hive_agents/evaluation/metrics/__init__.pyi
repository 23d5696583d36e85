from .labels import (
    discount as discount,
    ideal_dcg as ideal_dcg,
)
