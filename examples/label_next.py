"""Which node to label next.

Labels cost time, so ask for the most informative ones. `query` picks nodes whose labels would most
reduce the uncertainty of all others, without redundancy. For comparison: the same number of labels
of random nodes.
"""

import numpy as np
from matplotlib import pyplot as plt

from nodeproof import NodeClassifier
from nodeproof.datasets import make_planted
from nodeproof.paper import experiments

labels = [10, 24, 38]
found = {"asked for": np.zeros((3, 3)), "at random": np.zeros((3, 3))}
for seed in range(3):
    data = make_planted(5, 50, p=0.15, omega=0.3, label_ratio=0, random_state=seed)
    two_each = np.concatenate([np.flatnonzero(data.y_true == c)[:2] for c in range(5)])
    for way, accuracy in found.items():
        rng = np.random.default_rng(seed)
        y, ask = np.full(250, -1), two_each
        for k in range(3):
            y[ask] = data.y_true[ask]
            clf = NodeClassifier(random_state=0).fit(data.X, y, graph=data.graph)
            unknown = np.flatnonzero(y < 0)
            accuracy[k, seed] = (clf.labels_ == data.y_true)[unknown].mean()
            ask = rng.permutation(unknown)[:14]
            if way == "asked for":
                ask = clf.query(14)

for way, accuracy in found.items():
    print(f"{way}: " + ", ".join(f"{a:.1%}" for a in accuracy.mean(axis=1)))
curves = {way: (labels, accuracy) for way, accuracy in found.items()}
experiments.accuracy_curves(curves, errors=1, xlabel="labels")
plt.show()
