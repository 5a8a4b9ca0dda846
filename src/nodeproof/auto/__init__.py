"""Automatic choices: terms, trust in the graph, settings, the number of classes.

Every choice is recorded with its reason, for ``clf.choices_``. `fitting` and `path` call it; of
its parts only the experts are public, as `nodeproof.experts`. May import `convex`, `solvers`,
`terms`, `problem` and what is below them; never the estimator.
"""
