"""What is known of nodes beside their links: one small class for each kind."""

from nodeproof.terms.base import NodeData, Term
from nodeproof.terms.covariance import Covariance
from nodeproof.terms.gaussian import Gaussian
from nodeproof.terms.labels import Labels
from nodeproof.terms.multinomial import Multinomial
from nodeproof.terms.softmax import Softmax

__all__ = ["Covariance", "Gaussian", "Labels", "Multinomial", "NodeData", "Softmax", "Term"]
