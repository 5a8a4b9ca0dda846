"""Groups that avoid each other: women and events.

In the 1930s Davis and colleagues noted which of 18 women of a town in the South attended which of
14 social events. The graph links women with events, never two women or two events. Communities
would be sought in vain; the two kinds of nodes are classes whose members link to the other class.
"""

import networkx as nx
import numpy as np
from matplotlib import pyplot as plt

from nodeproof import NodeClassifier

town = nx.davis_southern_women_graph()
clf = NodeClassifier(n_classes=2, random_state=0).fit(graph=town)

women = np.array([town.nodes[v]["bipartite"] == 0 for v in town])
for label in clf.classes_:
    inside = clf.labels_ == label
    print(f"class {label}: {(inside & women).sum()} women, {(inside & ~women).sum()} events")

order = np.argsort(clf.labels_, kind="stable")
names = [str(v) for v in clf.node_ids_[order]]
_, ax = plt.subplots(figsize=(6, 5.6), layout="constrained")
ax.imshow(nx.to_numpy_array(town)[np.ix_(order, order)], cmap="Greys")
ax.set_xticks(range(32), names, rotation=90, fontsize=6)
ax.set_yticks(range(32), names, fontsize=6)
ax.set_title("who was where, sorted by class", fontsize="medium")
plt.show()
