"""Real features without links: handwritten digits.

1,797 images of 8 × 8 pixels, 60 of them labelled. `graph="knn"` links every image to those that
look most alike. The probabilities say where to look: the least certain images are shown with the
two digits that each might be.
"""

import numpy as np
from matplotlib import pyplot as plt
from sklearn.datasets import load_digits

from nodeproof import NodeClassifier

images = load_digits()
rng = np.random.default_rng(0)
some = rng.choice(1797, 60, replace=False)
y = np.full(1797, -1)
y[some] = images.target[some]

clf = NodeClassifier(random_state=0).fit(images.data, y, graph="knn")

right = clf.labels_ == images.target
sure = clf.proba_.max(axis=1) > 0.9
print(f"{right[y < 0].mean():.1%} of the unlabelled images are right")
print(f"{right[sure].mean():.1%} of the {sure.mean():.0%} that are more than 90 % certain")

figure, axes = plt.subplots(2, 6, figsize=(7, 3), layout="constrained")
for ax, v in zip(axes.flat, np.argsort(clf.proba_.max(axis=1), kind="stable"), strict=False):
    first, second = clf.classes_[np.argsort(-clf.proba_[v], kind="stable")[:2]]
    ax.imshow(images.images[v], cmap="Greys")
    ax.set_title(f"{first} or {second}?", fontsize="small")
    ax.set_axis_off()
plt.show()
