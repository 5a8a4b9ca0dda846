"""The number of classes, from links alone.

Only links are given: no labels, no features, and no number of classes. The number chosen is the one
that gives the shortest description of the links. The matrix shows the result: how densely each pair
of classes is linked.
"""

from matplotlib import pyplot as plt

from nodeproof import NodeClassifier, plot
from nodeproof.datasets import make_planted
from nodeproof.metrics import matched_accuracy

data = make_planted(6, [40, 50, 60, 70, 80, 90], p=0.35, q=0.06, label_ratio=0, random_state=0)
clf = NodeClassifier(random_state=0).fit(graph=data.graph)

print(f"{len(clf.classes_)} classes: {clf.choices_['n_classes']['why']}")
# Without labels, class names are arbitrary: the best matching counts.
print(f"{matched_accuracy(data.y_true, clf.labels_):.1%} of the nodes are in the right class")

plot.block_matrix(clf)
plt.show()
