"""Ten lines to labels.

A graph, six features per node and a label for every fifth node. The result is a class for every
node, its probability, and how much each source contributed. On the map, nodes lie at the corner of
their class, or between corners if they are uncertain.
"""

from matplotlib import pyplot as plt

from nodeproof import NodeClassifier, plot
from nodeproof.datasets import make_planted

data = make_planted(p=0.075, omega=0.3, random_state=0)  # 900 nodes in three classes
clf = NodeClassifier(random_state=0).fit(data.X, data.y, graph=data.graph)

unknown = data.y < 0
right = clf.labels_ == data.y_true
print(f"{right[unknown].mean():.1%} of {unknown.sum()} unlabelled nodes are right")
print(f"no method can exceed about {data.genie_accuracy('GFL'):.1%}")
print("decided by", {source: round(share, 2) for source, share in clf.sources_.items()})

plot.node_map(clf)
plt.show()
