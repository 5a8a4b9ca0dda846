"""Find wrong labels.

Every fourth label is wrong here, and the fit is not told which. The share of wrong labels is
estimated together with everything else, so labels are trusted less, and those that links and
features contradict are listed in `suspects_`, the most suspicious first.
"""

from matplotlib import pyplot as plt

from nodeproof import NodeClassifier, plot
from nodeproof.datasets import make_planted

data = make_planted(p=0.09, omega=0.2, label_accuracy=0.75, random_state=1)
clf = NodeClassifier(random_state=0).fit(data.X, data.y, graph=data.graph)

wrong = (data.y >= 0) & (data.y != data.y_true)
found = wrong[clf.suspects_.node]
print(f"{wrong.sum()} of {(data.y >= 0).sum()} labels are wrong")
print(f"{len(found)} are suspected, {found.sum()} of them correctly")
for one in clf.suspects_[:3]:
    print(f"  node {one.node}: {one.given} was given, {one.suggested} is likely, "
          f"wrong with probability {one.p_wrong:.3f}")  # fmt: skip

# Suspects are ringed; each lies at the class that it resembles.
plot.node_map(clf)
plt.show()
