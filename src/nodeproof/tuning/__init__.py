"""The few numbers that matter on real graphs, chosen on labels that were held back.

Held back are, in turn, the folds of the labelled nodes, or nodes given for it (`validation`).
Everything is judged by the log-loss there, after the best scaling of the scores.
"""

from nodeproof.tuning.held import HeldBack, hold_back
from nodeproof.tuning.plans import Setting, Tuned, tune_links, tune_softmax

__all__ = ["HeldBack", "Setting", "Tuned", "hold_back", "tune_links", "tune_softmax"]
