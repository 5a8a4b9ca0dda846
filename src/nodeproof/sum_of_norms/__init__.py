"""The sum of norms ``Σ_{u<v} ‖θ_u − θ_v‖`` that draws models together.

`pairs` has its value, its gradients and the operations on differences that every solver shares;
`class_models` minimises class losses with it, and `centroids` turns that into class models. It may
import `terms` and what is below; `Problem` and the convex solvers import it.
"""

from nodeproof.sum_of_norms.pairs import SumOfNorms, sum_of_norms

__all__ = ["SumOfNorms", "sum_of_norms"]
