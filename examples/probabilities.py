"""Calibrated probabilities.

Of the nodes with probability 0.8, 80 % should be right. Left: nodeproof, which weighs links,
features and labels by their likelihoods and does not count a node's own influence twice. Right: a
quadratic discriminant fitted to the same labels, which is far too confident.
"""

from matplotlib import pyplot as plt
from sklearn.discriminant_analysis import QuadraticDiscriminantAnalysis

from nodeproof import NodeClassifier, plot
from nodeproof.datasets import make_planted
from nodeproof.metrics import reliability_curve

data = make_planted(p=0.07, omega=0.3, label_ratio=0.05, random_state=0)
unknown = data.y < 0
clf = NodeClassifier(random_state=0).fit(data.X, data.y, graph=data.graph)
other = QuadraticDiscriminantAnalysis().fit(data.X[~unknown], data.y[~unknown])

truth = data.y_true[unknown]
found = {
    "nodeproof": clf.proba_[unknown],
    "discriminant": other.predict_proba(data.X[unknown]),
}
_, axes = plt.subplots(1, 2, figsize=(10, 4.6), layout="constrained")
for ax, (name, proba) in zip(axes, found.items(), strict=True):
    right = (proba.argmax(axis=1) == truth).mean()
    print(f"{name}: {right:.1%} right. {reliability_curve(truth, proba).explain()}")
    plot.reliability((truth, proba), ax=ax)
plt.show()
