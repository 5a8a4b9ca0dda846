"""Certificates of the paper's convex program, with the conditions of its recovery theorem.

Use `nodeproof.certificate.certify_program`. May import `convex` and what is below it.
"""
