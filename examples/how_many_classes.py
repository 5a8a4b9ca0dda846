"""The number of classes, from links alone.

Nothing but links: no labels, no features, and nobody says how many classes to look for. The number
is the one that describes the links in the fewest words. The matrix shows what was found: how
densely each two classes are linked.
"""

from matplotlib import pyplot as plt

from nodeproof import NodeClassifier, plot
from nodeproof.datasets import make_planted
from nodeproof.metrics import matched_accuracy

data = make_planted(6, [40, 50, 60, 70, 80, 90], p=0.35, q=0.06, label_ratio=0, random_state=0)
clf = NodeClassifier(random_state=0).fit(graph=data.graph)

print(f"{len(clf.classes_)} classes: {clf.choices_['n_classes']['why']}")
# Without labels names mean nothing; the best renaming counts.
print(f"{matched_accuracy(data.y_true, clf.labels_):.1%} of the nodes are where they belong")

plot.block_matrix(clf)
plt.show()
