"""Certificates of the convex program, with the conditions of the recovery theorem.

Use `nodeproof.certificate.certify_program`. The bound holds for every solution of the program,
whichever solver found it. May import `convex`, `certificate.labelling` and what is below them.
"""
