"""The paper's own side: its experiments, its theory and its baselines.

`experiments` reproduces the figures, `theory` measures the assumptions of the recovery theorem,
`baselines` are other methods; each is public. May import everything but `cli`, which alone may
import it.
"""
