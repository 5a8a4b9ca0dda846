"""Certificates of a labelling: proofs that it is optimal for fixed models, or bounds of its gap.

Use `nodeproof.certify`. `instance` is the labelling problem, and `labellings` finds better
labellings. `potts`, `flows` and `exclusion` find Potts duals, `dual`, `families` and `improve`
spectral ones; `search` decides what is tried when, with `potts_search` and `spectral_search` for
the two kinds. `proof` collects the steps that `certificate.audit` accepts: that file alone decides
what is proven. `result` and `verify` are what users see. May import `problem`, `solvers` and what
is below them.
"""
