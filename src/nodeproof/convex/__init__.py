"""The paper's convex program: its objective, its sets and the solvers that bound it.

`program` has the objective and its dual, `admm`, `cano` and `sdp` the solvers (also found in
`nodeproof.solvers`), `results` what they share, `clustering` and `characteristic` the two smaller
problems of the paper. May import `atoms`, `certificate.labelling`, `solvers` and what is below.
"""
