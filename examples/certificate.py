"""A proof that no labelling is better.

Three classes and 300 nodes have 3³⁰⁰ labellings. A certificate proves, by dual variables that
anyone can check again, that none has a lower objective than the one that was found; or it says by
how much another could be better at most. The picture is the proof at a glance: nothing lies left
of zero.
"""

from matplotlib import pyplot as plt

from nodeproof import NodeClassifier
from nodeproof.datasets import make_planted

for p in (0.3, 0.2):
    data = make_planted(cluster_size=100, p=p, q=0.12, omega=0.3, label_ratio=0.1, random_state=0)
    clf = NodeClassifier(random_state=0).fit(data.X, data.y, graph=data.graph)
    proof = clf.certify(time_budget=2)
    print(f"Links inside a class with {p:.2f}: {proof.explain()}")
    print(f"The proof was checked again, by code of its own: {proof.verify().holds}")
    proof.plot()
plt.show()
