"""Opposites attract.

Links need not join similar nodes: buyers link to sellers, and in some texts words follow words of
another kind. Here nodes have fewer links within their class than to the others. Nothing has to be
set: the contrast is estimated, including its sign. The shares show what each source contributed.
"""

from matplotlib import pyplot as plt

from nodeproof import NodeClassifier, plot
from nodeproof.datasets import make_planted

data = make_planted(p=0.03, q=0.08, omega=0.3, label_ratio=0.05, random_state=0)
clf = NodeClassifier(random_state=0).fit(data.X, data.y, graph=data.graph)
features_only = NodeClassifier(random_state=0).fit(data.X, data.y)

unknown = data.y < 0
for name, one in (("with links", clf), ("without", features_only)):
    print(f"{name:>10}: {(one.labels_ == data.y_true)[unknown].mean():.1%} are right")

_, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
plot.block_matrix(clf, relative=True, ax=left)
plot.sources(clf, ax=right)
plt.show()
