"""The inner loops, compiled; no policy.

Every kernel releases the GIL and works on a range of rows, so that callers may run fixed
ranges on several threads: what a range gives does not depend on who runs it.
"""

from nodeproof.kernels.features import products, smooth_rows, solve_each
from nodeproof.kernels.links import (
    count_loops_and_zeros,
    first_bad_weight,
    is_symmetric,
    reverse_links,
)
from nodeproof.kernels.rows import (
    belief_rows,
    link_mass,
    message_rows,
    settle,
    sweep_batches,
    sweep_rows,
)

__all__ = [
    "belief_rows",
    "count_loops_and_zeros",
    "first_bad_weight",
    "is_symmetric",
    "link_mass",
    "message_rows",
    "products",
    "reverse_links",
    "settle",
    "smooth_rows",
    "solve_each",
    "sweep_batches",
    "sweep_rows",
]
