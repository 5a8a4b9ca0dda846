"""Real links without labels: Les Misérables.

Characters of Victor Hugo's novel are linked if they appear in the same chapter, the heavier the
more often. There are no labels and no features, and nobody says how many classes there are: both
the classes and their number are found. Names are those of the most connected in each class.
"""

import networkx as nx
import numpy as np
from matplotlib import pyplot as plt

from nodeproof import NodeClassifier

novel = nx.les_miserables_graph()
clf = NodeClassifier(random_state=0).fit(graph=novel)

strength = np.array([weight for _, weight in novel.degree(weight="weight")])
for label in clf.classes_:
    members = np.flatnonzero(clf.labels_ == label)
    first = members[np.argsort(-strength[members], kind="stable")[:4]]
    print(f"{len(members)} characters:", ", ".join(clf.node_ids_[first].tolist()), "…")

places = nx.spring_layout(novel, seed=7, k=0.35)
_, ax = plt.subplots(figsize=(6.5, 5), layout="constrained")
nx.draw_networkx_edges(novel, places, ax=ax, edge_color="#cccccc", width=0.6)
nx.draw_networkx_nodes(
    novel, places, ax=ax, node_color=clf.labels_, cmap="tab10", vmax=9, node_size=20 + 2 * strength
)
known = {v: v for v, s in zip(novel, strength, strict=True) if s > 55}
nx.draw_networkx_labels(novel, places, known, ax=ax, font_size=8)
ax.set_axis_off()
plt.show()
