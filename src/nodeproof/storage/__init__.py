"""Files that are whole or not there: atomic writing, locks, ``.npz``, schemas, graphs on disk.

For whoever reads or writes files. May import `errors`, `runtime`, `kernels` and `csr`.
"""
