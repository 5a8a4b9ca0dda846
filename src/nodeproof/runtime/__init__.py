"""What the machine offers: threads, memory, progress and warnings, digests, matplotlib's Axes.

For every other room; imports nothing but `errors`. Take functions from the modules themselves.
"""
