"""The paper's convex program: its objective, its sets and the solvers that bound it.

`program` is the judge; `admm`, `sdp` and `cano` solve it, `clustering` a graph alone,
`characteristic` class models under a sum of norms. The solvers are public as
`nodeproof.solvers.BlockADMM`, `ExactSDP` and `CANO`. May import `atoms`, `certificate.labelling`,
`solvers` and what is below them.
"""
