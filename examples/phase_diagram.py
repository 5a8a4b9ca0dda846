"""Where classes can be found at all.

Two classes and links alone. With a links per node to its own class and b to the other, on average,
a large graph tells nothing where (a − b)² < a + b, whatever the method: that is what lies inside
the line, round the diagonal. What was measured on small graphs agrees. Above the diagonal classes
avoid links inside; they are found as well.
"""

import warnings

import numpy as np
from matplotlib import pyplot as plt

from nodeproof import NodeClassifier
from nodeproof.datasets import make_planted
from nodeproof.metrics import matched_accuracy
from nodeproof.paper import experiments

warnings.simplefilter("ignore")  # fits say so where links tell nothing
size = 100
links = np.linspace(1, 11, 6)
accuracy = np.zeros((6, 6))
for i, b in enumerate(links):
    for j, a in enumerate(links):
        data = make_planted(2, size, p=a / size, q=b / size, label_ratio=0, random_state=0)
        clf = NodeClassifier(2, random_state=0).fit(graph=data.graph)
        # Without labels names mean nothing; the best renaming counts.
        accuracy[i, j] = matched_accuracy(data.y_true, clf.labels_)
print(accuracy.round(2))

difference = np.linspace(-6, 6, 100)
both = difference**2
experiments.phase_diagram(
    accuracy, links, links, boundary=((both + difference) / 2, (both - difference) / 2),
    xlabel="links to one's own class, a", ylabel="links to the other class, b",
)  # fmt: skip
plt.show()
