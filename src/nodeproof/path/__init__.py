"""The regularisation path: how many classes there are, by threshold and by sum of norms.

At fixed weights the number of classes depends on the threshold t: below the densities of links
across classes there is one class, above those inside classes they break up. A number that does not
change over a wide range of t in between can be trusted. All that is listed here is public.
May import `auto`, `convex`, `solvers` and what is below them.

>>> from nodeproof import path
>>> from nodeproof.datasets import make_planted
>>> data = make_planted(3, cluster_size=40, p=0.5, q=0.05, label_ratio=0, random_state=0)
>>> found = path.follow(graph=data.graph, n_points=9, random_state=0)
>>> found.stable.value
3
"""

from nodeproof.path.following import follow
from nodeproof.path.result import Path, Point, Stable

__all__ = ["Path", "Point", "Stable", "follow"]
