"""The inner loops, compiled; no policy.

Every kernel releases the GIL and works on a range of rows, so that callers may run fixed
ranges on several threads: the result of a range does not depend on the thread. May import nothing
of the library.
"""

from nodeproof.kernels.annealing import anneal_clusters, anneal_nodes
from nodeproof.kernels.gathering import (
    charge_rows,
    link_mass,
    link_mass_exactly,
    product_rows,
    row_sums,
)
from nodeproof.kernels.links import (
    first_bad_weight,
    inspect_links,
    is_symmetric,
    labelled_links,
    reverse_links,
)
from nodeproof.kernels.memberships import (
    belief_rows,
    deliver,
    message_rows,
    sweep_batches,
    sweep_rows,
    take_cells,
)
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
from nodeproof.kernels.potts import (
    decode_flows,
    number_links,
    push_slack,
    reduce_costs,
    relaxed_value,
    step_links,
    step_nodes,
)
from nodeproof.kernels.trees import tree_scores

__all__ = [
    "anneal_clusters",
    "anneal_nodes",
    "belief_rows",
    "charge_labels",
    "charge_rows",
    "count_labels",
    "decode_flows",
    "deliver",
    "first_bad_weight",
    "inspect_links",
    "is_symmetric",
    "label_links",
    "labelled_links",
    "link_mass",
    "link_mass_exactly",
    "message_rows",
    "number_links",
    "product_rows",
    "products",
    "push_slack",
    "reduce_costs",
    "relaxed_value",
    "reverse_links",
    "row_sums",
    "settle",
    "smooth_rows",
    "solve_each",
    "step_links",
    "step_nodes",
    "sweep_batches",
    "sweep_labels",
    "sweep_rows",
    "take_cells",
    "tree_scores",
]
