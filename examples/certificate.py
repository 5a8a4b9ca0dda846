"""A proof that no labelling is better.

Three classes and 300 nodes have 3³⁰⁰ labellings. A certificate proves, by dual variables that
anyone can check, that none of them has a lower objective than the one found, or it bounds how much
better another could be. The figure shows the labelling found and the bound over time; the proof is
complete where they meet.
"""

from matplotlib import pyplot as plt

from nodeproof import NodeClassifier
from nodeproof.datasets import make_planted

for p in (0.3, 0.2):
    data = make_planted(cluster_size=100, p=p, q=0.12, omega=0.3, label_ratio=0.1, random_state=0)
    clf = NodeClassifier(random_state=0).fit(data.X, data.y, graph=data.graph)
    proof = clf.certify(time_budget=2)
    print(f"Link density {p:.2f} within classes: {proof.explain()}")
    print(f"Confirmed by the auditor: {proof.verify().holds}")
    proof.plot()
plt.show()
