"""The inner loops, compiled; no policy.

Every kernel releases the GIL and works on a range of rows, so that callers may run fixed ranges on
several threads: what a range gives does not depend on who runs it. What is listed here is for the
rest of the library; kernels may import each other and numba, and nothing else.
"""

from nodeproof.kernels.beliefs import belief_rows, message_rows
from nodeproof.kernels.gathering import product_rows
from nodeproof.kernels.links import (
    first_bad_weight,
    inspect_links,
    is_symmetric,
    labelled_links,
    reverse_links,
)
from nodeproof.kernels.masses import charge_rows, link_mass, link_mass_exactly, row_sums
from nodeproof.kernels.memberships import sweep_batches, sweep_rows, take_cells
from nodeproof.kernels.nodes import (
    charge_labels,
    count_labels,
    label_links,
    products,
    settle,
    smooth_rows,
    solve_each,
    sweep_labels,
)

__all__ = [
    "belief_rows",
    "charge_labels",
    "charge_rows",
    "count_labels",
    "first_bad_weight",
    "inspect_links",
    "is_symmetric",
    "label_links",
    "labelled_links",
    "link_mass",
    "link_mass_exactly",
    "message_rows",
    "product_rows",
    "products",
    "reverse_links",
    "row_sums",
    "settle",
    "smooth_rows",
    "solve_each",
    "sweep_batches",
    "sweep_labels",
    "sweep_rows",
    "take_cells",
]
