"""Saved models: one ``.npz`` file, no pickle, nothing in it taken on trust.

For the estimator and the command line. May import `fitting`, `report` and what is below them.
"""
