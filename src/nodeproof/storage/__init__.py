"""Files that are complete or not there: atomic writes, locks, ``.npz``, schemas, graphs on disk.

For every room that reads or writes files: take functions from the modules themselves
(`atomic`, `npz`, `schema`, `graph_folder`, …). Checks bytes, sizes and structure, and knows
nothing about models or tables. May import `errors`, `runtime`, `kernels` and `csr`.
"""
