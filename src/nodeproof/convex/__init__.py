"""The paper's convex program: its objective and sets, and the solvers that bound it from below.

The solvers are also in `nodeproof.solvers`. May import `atoms`, `solvers` and what is below them.
"""
