"""Certificates: proofs that a labelling is the best of all, or how far from it it can be."""
