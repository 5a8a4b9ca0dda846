"""A real graph: Zachary's karate club.

In 1977 a karate club of 34 split in two after a quarrel between its instructor, Mr. Hi, and its
officers. From friendships and the labels of these two alone, the side of all others is predicted.
The one who is wrong is Zachary's own exception, too: he stayed with Mr. Hi for his black belt.
"""

import networkx as nx
import numpy as np
from matplotlib import pyplot as plt

from nodeproof import NodeClassifier

club = nx.karate_club_graph()
clf = NodeClassifier(random_state=0).fit(y={0: "Mr. Hi", 33: "Officer"}, graph=club)

truth = np.array([club.nodes[v]["club"] for v in club])
wrong = np.flatnonzero(clf.labels_ != truth)
print(f"{(clf.labels_ == truth).sum()} of {len(club)} members are right")
for v in wrong:
    print(f"member {v}: probability {clf.proba_[v].max():.2f}, went with {truth[v]}")

places = nx.spring_layout(club, seed=3)
_, ax = plt.subplots(figsize=(6, 4.2), layout="constrained")
nx.draw_networkx_edges(club, places, ax=ax, edge_color="#bbbbbb")
drawn = nx.draw_networkx_nodes(
    club, places, ax=ax, node_color=clf.proba_[:, 0], cmap="coolwarm", vmin=0, vmax=1,
    edgecolors=["black" if v in wrong else "white" for v in club],
)  # fmt: skip
nx.draw_networkx_labels(club, places, ax=ax, font_size=7)
plt.colorbar(drawn, ax=ax, label="probability of Mr. Hi's side")
ax.set_axis_off()
plt.show()
