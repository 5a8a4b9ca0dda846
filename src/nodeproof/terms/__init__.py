"""What is known of nodes beside their links: one small class for each kind.

Each kind derives from :class:`Term` (`base`), whose methods are all that other packages ask of it;
a term of your own needs no other file. `registry` finds terms by name, `checks` refuses what their
methods must not return. All that is listed here is public. Imports nothing above `graph` and
`smoothing`.
"""

from nodeproof.terms.base import NodeData, Term
from nodeproof.terms.categorical import Categorical
from nodeproof.terms.counts import Counts
from nodeproof.terms.covariance import Covariance
from nodeproof.terms.gaussian import Gaussian
from nodeproof.terms.labels import Labels
from nodeproof.terms.multinomial import Multinomial
from nodeproof.terms.new_nodes import NewNodeCosts, NewNodes
from nodeproof.terms.registry import register
from nodeproof.terms.regression import Regression
from nodeproof.terms.softmax import Softmax
from nodeproof.terms.summable import SummableTerm

__all__ = [
    "Categorical",
    "Counts",
    "Covariance",
    "Gaussian",
    "Labels",
    "Multinomial",
    "NewNodeCosts",
    "NewNodes",
    "NodeData",
    "Regression",
    "Softmax",
    "SummableTerm",
    "Term",
    "register",
]
