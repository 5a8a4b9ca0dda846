"""Automatic choices: terms, trust in the graph, settings, the number of classes.

Every choice is recorded with its reason, for ``clf.choices_``. Nothing here is public: `fitting`
and `path` call it. May import `convex`, `solvers`, `terms`, `problem` and what is below them; never
the estimator.
"""
