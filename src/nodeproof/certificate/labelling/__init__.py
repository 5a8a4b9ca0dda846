"""Certificates of a labelling: the dual bound, its rigour, the search for it and its audit.

Use `nodeproof.certify`. May import `problem`, `solvers` and what is below them.
"""
