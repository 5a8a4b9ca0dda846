"""What is known of nodes beside their links: one small class for each kind.

A term says how well a node fits each class, and estimates the models of the classes; `Term` has all
that the rest of the library asks of one, so that a new term is a new file. All that is listed here
is public. May import `graph`, `smoothing`, `sets`, `kernels` and what is below them.
"""

from nodeproof.terms.base import NodeData, Term
from nodeproof.terms.covariance import Covariance
from nodeproof.terms.gaussian import Gaussian
from nodeproof.terms.labels import Labels
from nodeproof.terms.multinomial import Multinomial
from nodeproof.terms.softmax import Softmax

__all__ = ["Covariance", "Gaussian", "Labels", "Multinomial", "NodeData", "Softmax", "Term"]
