"""The inner loops, compiled; no policy.

Every kernel releases the GIL and works on a range of rows, so that callers may run fixed
ranges on several threads: the result of a range does not depend on the thread. May import `runtime`
alone.
"""

from nodeproof.kernels import (
    annealing,
    checks,
    drawing,
    gathering,
    links,
    memberships,
    near,
    nodes,
    potts,
    trees,
)
from nodeproof.kernels.dispatch import Kernel
from nodeproof.kernels.gathering import workspace
from nodeproof.kernels.lanes import lanes

__all__ = [
    "anneal_clusters",
    "anneal_nodes",
    "average_rows",
    "believe_batches",
    "believe_nodes",
    "checksum",
    "count_labels",
    "couple_rows",
    "decode_flows",
    "first_bad_weight",
    "gather_nodes",
    "inspect_links",
    "is_symmetric",
    "label_links",
    "lanes",
    "largest_columns",
    "merge_rows",
    "number_links",
    "pair_products",
    "product_rows",
    "push_slack",
    "recall_messages",
    "receive_rows",
    "reduce_costs",
    "relaxed_value",
    "reorder_links",
    "settle",
    "settle_several",
    "solve_each",
    "solve_nodes",
    "spread_nodes",
    "squared_lengths",
    "step_links",
    "step_nodes",
    "sum_counted",
    "sum_memberships",
    "sum_neighbours",
    "sweep_batches",
    "sweep_labels",
    "take_cells",
    "tree_scores",
    "workspace",
]

anneal_clusters = Kernel(annealing.anneal_clusters)
anneal_nodes = Kernel(annealing.anneal_nodes)
average_rows = Kernel(gathering.average_rows)
believe_batches = Kernel(memberships.believe_batches)
believe_nodes = Kernel(near.believe_nodes)
checksum = Kernel(checks.checksum)
count_labels = Kernel(nodes.count_labels)
couple_rows = Kernel(gathering.couple_rows)
decode_flows = Kernel(potts.decode_flows)
first_bad_weight = Kernel(links.first_bad_weight)
gather_nodes = Kernel(near.gather_nodes)
inspect_links = Kernel(links.inspect_links)
is_symmetric = Kernel(links.is_symmetric)
label_links = Kernel(nodes.label_links)
merge_rows = Kernel(near.merge_rows)
largest_columns = Kernel(nodes.largest_columns)
number_links = Kernel(potts.number_links)
pair_products = Kernel(nodes.pair_products)
product_rows = Kernel(gathering.product_rows)
push_slack = Kernel(potts.push_slack)
recall_messages = Kernel(near.recall_messages)
receive_rows = Kernel(memberships.receive_rows)
reduce_costs = Kernel(potts.reduce_costs)
relaxed_value = Kernel(potts.relaxed_value)
reorder_links = Kernel(links.reorder_links)
settle = Kernel(nodes.settle)
settle_several = Kernel(nodes.settle_several)
solve_each = Kernel(nodes.solve_each)
solve_nodes = Kernel(near.solve_nodes)
spread_nodes = Kernel(drawing.spread_nodes)
squared_lengths = Kernel(nodes.squared_lengths)
step_links = Kernel(potts.step_links)
step_nodes = Kernel(potts.step_nodes)
sum_counted = Kernel(nodes.sum_counted)
sum_memberships = Kernel(nodes.sum_memberships)
sum_neighbours = Kernel(links.sum_neighbours)
sweep_batches = Kernel(memberships.sweep_batches)
sweep_labels = Kernel(nodes.sweep_labels)
take_cells = Kernel(memberships.take_cells)
tree_scores = Kernel(trees.tree_scores)
