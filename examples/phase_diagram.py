"""Where classes can be found at all.

Two classes and links alone. If a node has on average a links to its own class and b to the other, a
large graph tells nothing about the classes where (a − b)² < a + b, whatever the method: this is the
region inside the line, around the diagonal. Measurements on small graphs agree. Above the diagonal,
nodes avoid their own class; such classes are found as well.
"""

import warnings

import numpy as np
from matplotlib import pyplot as plt

from nodeproof import NodeClassifier
from nodeproof.datasets import make_planted
from nodeproof.metrics import matched_accuracy
from nodeproof.paper import experiments

warnings.simplefilter("ignore")  # fits warn where links are uninformative
size = 100
links = np.linspace(1, 11, 6)
accuracy = np.zeros((6, 6))
for i, b in enumerate(links):
    for j, a in enumerate(links):
        data = make_planted(2, size, p=a / size, q=b / size, label_ratio=0, random_state=0)
        clf = NodeClassifier(2, random_state=0).fit(graph=data.graph)
        # Without labels, class names are arbitrary: the best matching counts.
        accuracy[i, j] = matched_accuracy(data.y_true, clf.labels_)
print(accuracy.round(2))

difference = np.linspace(-6, 6, 100)
both = difference**2
experiments.phase_diagram(
    accuracy, links, links, boundary=((both + difference) / 2, (both - difference) / 2),
    xlabel="links to own class, a", ylabel="links to the other class, b",
)  # fmt: skip
plt.show()
