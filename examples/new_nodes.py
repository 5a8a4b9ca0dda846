"""New nodes, without refitting.

A fitted classifier labels nodes that arrive later by their features and by their links to fitted
nodes. The time is proportional to the number of links, and the fitted model does not change.
"""

import numpy as np
from matplotlib import pyplot as plt

from nodeproof import NodeClassifier
from nodeproof.datasets import make_planted

data = make_planted(p=0.09, omega=0.3, random_state=3)
order = np.random.default_rng(0).permutation(900)
known, new = order[:700], order[700:]

clf = NodeClassifier(random_state=0)
clf.fit(data.X[known], data.y[known], graph=data.graph[known][:, known])
links = data.graph[new][:, known]
found = {
    "their features": clf.predict(data.X[new]),
    "features and links": clf.predict(data.X[new], graph=links),
}
right = {by: (labels == data.y_true[new]).mean() for by, labels in found.items()}
for by, share in right.items():
    print(f"by {by}, {share:.1%} of {len(new)} new nodes are right")

_, ax = plt.subplots(figsize=(6, 1.8), layout="constrained")
bars = ax.barh(list(right), list(right.values()), color="#2f6f9f")
ax.bar_label(bars, [f" {share:.0%}" for share in right.values()])
ax.set(xlim=(0, 1.1), xlabel="new nodes that are right", xticks=[0, 0.5, 1])
plt.show()
