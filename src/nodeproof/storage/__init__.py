"""Files that are whole or not there: atomic writing, locks, ``.npz``, schemas, graphs.

`schema` is the one validator of what files say: for saved models, checkpoints, certificates and
half-done conversions. For whoever reads or writes files; take functions from the modules.
May import `csr`, `kernels`, `runtime` and `errors`.
"""
