"""How "auto" decides: feature terms, trust in the graph, settings, the number of classes.

For `fitting`. May import `solvers`, `terms`, `problem` and what is below them.
"""
