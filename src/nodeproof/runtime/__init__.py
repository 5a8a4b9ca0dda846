"""What the machine offers: threads, memory, logs, digests and matplotlib's Axes.

Functions of general use that know nothing of graphs or classes. Any room may import them, from the
modules themselves. May import `errors` and nothing else.
"""
