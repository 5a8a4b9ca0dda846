"""Certificates of a labelling: proofs that it is optimal for fixed models, or bounds of its gap.

Use `nodeproof.certify`. `instance` is the labelling problem, `dual`, `families` and
`improve` give dual variables, `bound`, `spectrum` and `nodes` what they prove, and `verify` and
`audit` check it independently. May import `problem`, `solvers` and what is below them.
"""
