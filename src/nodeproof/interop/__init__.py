"""Conversion from and to the objects of other libraries.

`NodeClassifier.fit` takes most of them as they are; the functions here select their parts where
that is not obvious, and write results back. Everything listed here is public; the reading side is
in `inputs`. May import `estimator`, `inputs` and what is below them.
"""

from nodeproof.interop.anndata import from_anndata, to_anndata
from nodeproof.interop.networks import from_networkx, from_pyg, to_igraph, to_networkx, to_pyg
from nodeproof.interop.tables import from_tables, to_table

__all__ = [
    "from_anndata",
    "from_networkx",
    "from_pyg",
    "from_tables",
    "to_anndata",
    "to_igraph",
    "to_networkx",
    "to_pyg",
    "to_table",
]
