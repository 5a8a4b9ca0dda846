"""Experts: kinds of evidence that the pool weighs by held-out labels."""
