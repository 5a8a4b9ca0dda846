"""Convert from and to the objects of other libraries.

`NodeClassifier.fit` takes most of them as they are; the functions here say which of their parts
count where that is not plain, and write results back. All that is listed here is public; the
reading side lives in `inputs`. May import `estimator`, `inputs` and what is below them.
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
