"""To and from the objects of other libraries.

`NodeClassifier.fit` takes most of them as they are; the functions here say which of their parts
count where that is not plain, and write what was found back.
"""

from nodeproof.interop.anndata import from_anndata, to_anndata
from nodeproof.interop.networks import from_pyg, to_igraph, to_networkx, to_pyg
from nodeproof.interop.tables import from_tables, to_table

__all__ = [
    "from_anndata",
    "from_pyg",
    "from_tables",
    "to_anndata",
    "to_igraph",
    "to_networkx",
    "to_pyg",
    "to_table",
]
