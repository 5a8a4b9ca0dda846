"""The paper's own side: its experiments, its theory and the baselines it is compared with.

Imports everything else; imported by the command line alone.
"""
