"""What is known of nodes beside their links: one small class for each kind."""

from nodeproof.terms.base import NodeData, Term
from nodeproof.terms.covariance import Covariance
from nodeproof.terms.labels import Labels

__all__ = ["Covariance", "Labels", "NodeData", "Term"]
