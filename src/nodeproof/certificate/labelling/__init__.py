"""Certificates of a labelling: the dual bound, the search for it and its audit.

Use `nodeproof.certify` and `nodeproof.certificate.Certificate`; `verify` and `audit` check a
certificate from its file and the data alone, with none of the code that searched for it.
May import `problem`, `solvers`, `storage` and what is below them.
"""
