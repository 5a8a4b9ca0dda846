"""Find labels that are wrong.

Every fourth label is wrong here, and nobody says which. How often labels are wrong is estimated
along with all else, so they are believed less, and those that the links and the features speak
against are listed in `suspects_`, the worst first.
"""

from matplotlib import pyplot as plt

from nodeproof import NodeClassifier, plot
from nodeproof.datasets import make_planted

data = make_planted(p=0.09, omega=0.2, label_accuracy=0.75, random_state=1)
clf = NodeClassifier(random_state=0).fit(data.X, data.y, graph=data.graph)

wrong = (data.y >= 0) & (data.y != data.y_true)
found = wrong[clf.suspects_.node]
print(f"{wrong.sum()} of {(data.y >= 0).sum()} labels are wrong")
print(f"{len(found)} are suspected, {found.sum()} of them rightly")
for one in clf.suspects_[:3]:
    print(f"  node {one.node}: {one.given} was given, {one.suggested} is likely, "
          f"wrong with probability {one.p_wrong:.3f}")  # fmt: skip

# A suspect lies at the class that it looks like, ringed.
plot.node_map(clf)
plt.show()
