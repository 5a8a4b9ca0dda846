"""Whether the block model, taken at its word, does as well as the pool of all experts."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from scipy.stats import entropy

from nodeproof.auto.experts.base import Candidate
from nodeproof.auto.experts.block import BlockModel
from nodeproof.auto.held_out import HeldOut
from nodeproof.auto.pooling import Judge
from nodeproof.terms.logistic import fit_noise

__all__ = ["WORTH_TELLING", "block_is_enough", "with_wrong_labels"]

Array = NDArray[np.float64]

# The block model alone is preferred up to this many standard errors; and if links look as it says.
_PREFERRED, _FITTING = 0.25, 1.0

# How far a block model with wrong labels must be ahead of guessing: log-likelihood in nats, and
# log-loss as a share of that of guessing.
_EVIDENT, _BETTER_THAN_GUESSING = 3.0, 0.9

# Standard deviation of the log of the scale of likelihoods, which should be 1.
_LIKELIHOOD_SCALE = 0.05

#: by what factor wrong labels must be likelier than none; and if they are few: a few confident
#: contradictions are more often the model's fault
WORTH_TELLING = (30.0, 3000.0)


def block_is_enough(
    expert: BlockModel, best: Candidate, judge: Judge, nested: Array, held: HeldOut
) -> bool:
    """Tell whether the block model, taken at its word, does as well as the pool.

    Parameters
    ----------
    best : Candidate
        The setting that is taken, with log-probabilities of the held-out nodes.
    nested : ndarray of shape (h, K)
        Log-probabilities by pools chosen without their part.
    """
    logs = best.logs
    # Without links, nothing but these labels says whether the model is right.
    if not expert.linked or expert.counts_twice(best.setting):
        return False
    if _does_as_well(judge, judge, logs, nested):
        return True
    close = _does_as_well(judge, judge, logs, nested, _FITTING)
    return close and expert.describes_links(held, best.setting)


def with_wrong_labels(
    expert: BlockModel, best: Candidate, judge: Judge, nested: Array, noise: float, held: HeldOut
) -> tuple[bool, float]:
    """Tell whether the block model alone does as well if some labels are wrong, and how many are.

    It is asked only where it describes the links, and these determine the groups: elsewhere,
    contradictions are the model's fault.

    Parameters
    ----------
    nested : ndarray of shape (h, K)
        Log-probabilities by pools chosen without their part.
    noise : float
        Share of wrong labels by the pool.
    """
    logs = best.logs
    targets = np.eye(judge.n_classes)[judge.codes]
    by_block = fit_noise(logs, targets, None, _LIKELIHOOD_SCALE, *WORTH_TELLING)
    own = replace(judge, noise=by_block)
    guessing, loss = float(entropy(judge.shares)), own.loss(logs)
    evident = len(judge.codes) * (guessing - loss) > _EVIDENT
    if by_block == 0.0 or not evident or loss > _BETTER_THAN_GUESSING * guessing:
        return False, noise
    if not _does_as_well(own, judge, logs, nested, errors=1.0):
        return False, noise
    setting = best.setting
    if not (expert.is_stable(held, setting) and expert.describes_links(held, setting)):
        return False, noise
    # The pool may be better still if it is told how many labels are wrong.
    told = own.temperature(nested) * nested
    return _does_as_well(own, own, logs, told, errors=1.0), by_block


def _does_as_well(
    own: Judge, judge: Judge, logs: Array, nested: Array, errors: float = _PREFERRED
) -> bool:
    worse = own.losses(logs) - judge.losses(nested)
    return bool(worse.mean() <= errors * worse.std() / np.sqrt(len(worse)))
