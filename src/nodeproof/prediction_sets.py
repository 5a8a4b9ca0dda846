"""Prediction sets: for each node, classes that hold the true one with the coverage asked for.

They are conformal. A class belongs to the set of a node if its probability reaches a limit, and the
limit is such that the labels of held-out nodes reach it as often as asked, one more node counted as
missed. The probabilities of held-out nodes are cross-fitted: by fits and weights that have not seen
their labels. Where held-out and unlabelled nodes are exchangeable, the true class is in the set
with at least this probability, however good or bad the probabilities are.

Sets of this score, the probability itself, are smaller than those of adaptive scores (APS, RAPS),
and of scores that are averaged over neighbours (DAPS, SNAPS): the probabilities draw on the links
already. Averages of cross-fitted scores would not be valid either, for the neighbours of a held-out
node have seen its label. `benchmarks/coverage.py` compares them.
"""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax
from sklearn.utils.validation import check_is_fitted

from nodeproof.auto.accuracy import row_means
from nodeproof.auto.pooling import Judge
from nodeproof.conformal import LEAST_PROBA, estimate_noise, least_probabilities
from nodeproof.errors import InputError, count_of
from nodeproof.runtime.logs import warn_caller

if TYPE_CHECKING:
    from nodeproof.fitted import Fitted

__all__ = ["Limits", "PredictionSets", "can_have_sets", "find_limits", "limits_of"]

# A class of this probability is in every set. Otherwise a fit without errors would leave sets
# empty, just to miss as many nodes as it may.
_SURE = 0.95


@dataclass(frozen=True)
class Limits:
    """From which probability on classes belong to the sets of nodes.

    Attributes
    ----------
    least : ndarray of shape (K,), float32
        The limit of each class; 0 if the class is in every set.
    coverage : float
        The coverage asked for.
    class_conditional : bool
        Whether it holds in every class.
    n_labels : int
        Number of held-out labels.
    noise : float
        Share of them that is taken to be wrong.
    """

    least: NDArray[np.float32]
    coverage: float
    class_conditional: bool
    n_labels: int
    noise: float

    def sets(self, proba: NDArray[Any]) -> NDArray[np.bool_]:
        """Return the sets of nodes by their class probabilities, both of shape (n, K)."""
        return np.asarray(proba >= self.least)

    def summary(
        self, proba: NDArray[Any], given: NDArray[np.int64] | None = None
    ) -> dict[str, Any]:
        """Return the mean size of sets, and the shares of single classes and of empty sets.

        Parameters
        ----------
        proba : ndarray of shape (n, K)
            Class probabilities of nodes.
        given : ndarray of shape (n,), optional
            Their labels: those without, −1, count if there are any.
        """
        if given is not None and (given < 0).any():
            proba = proba[given < 0]
        sizes = self.sets(proba).sum(axis=1)
        n = max(len(sizes), 1)
        return {
            "coverage": self.coverage,
            "held_out_labels": self.n_labels,
            "wrong_labels": round(self.noise, 4),
            "nodes": len(sizes),
            "mean_size": round(float(sizes.sum() / n), 4),
            "single": round(float((sizes == 1).sum() / n), 4),
            "empty": round(float((sizes == 0).sum() / n), 4),
        }


def can_have_sets(fitted: Fitted) -> bool:
    """Tell whether a fit has probabilities, and held-out labels to calibrate sets by."""
    held = fitted.held_out
    return held is not None and len(held.nodes) > 0 and fitted.settings.temperature > 0


def limits_of(fitted: Fitted, coverage: Any, class_conditional: bool = False) -> Limits:
    """Return the limits of a fit; warn if its held-out labels are too few for this coverage."""
    if not isinstance(coverage, Real) or not 0 < float(coverage) < 1:
        raise InputError(
            f"coverage must be a number between 0 and 1, such as 0.9; got {coverage!r}"
        )
    if fitted.settings.temperature == 0:
        raise InputError(
            "prediction sets need probabilities, but the model was fitted with temperature=0, "
            "which assigns every node to one class: fit it with temperature=1"
        )
    if not can_have_sets(fitted):
        raise InputError(
            "prediction sets need labels that were held out of fits, and this model has none: fit "
            "it with automatic terms and weights, and with labels of at least two classes, two in "
            "one of them (a model saved by an older version has to be fitted and saved again)"
        )
    limits = find_limits(fitted, float(coverage), class_conditional)
    assert fitted.held_out is not None
    _warn_of_few_labels(limits, fitted.held_out.codes, fitted.classes)
    return limits


def find_limits(fitted: Fitted, coverage: float, class_conditional: bool = False) -> Limits:
    """Return the limits of a fit that can have sets."""
    held = fitted.held_out
    assert held is not None
    K = len(fitted.classes)
    learnt = Judge.of(held.codes, K).shares
    proba, mix = held.proba, held.proportions
    if mix is not None:
        logs = np.log(np.maximum(proba.astype(np.float64), LEAST_PROBA))
        proba = softmax(logs + np.log(mix / learnt), axis=1)
    else:
        unlabelled = None if fitted.given is None else fitted.given < 0
        means = row_means(fitted.proba, unlabelled)
        mix = learnt if means is None else means[0]
    noise = estimate_noise(held.proba, held.codes)
    # As precise as the probabilities of other nodes: both may be rounded to 1.
    least = least_probabilities(
        np.asarray(proba, dtype=np.float32),
        held.codes,
        coverage,
        ratio=mix / learnt,
        noise=noise,
        class_conditional=class_conditional,
    )
    found = np.minimum(least, _SURE).astype(np.float32)
    return Limits(found, coverage, class_conditional, len(held.codes), noise)


def _warn_of_few_labels(limits: Limits, codes: NDArray[np.int64], classes: NDArray[Any]) -> None:
    """Warn if classes are in all sets because there are too few held-out labels."""
    coverage = limits.coverage
    needed = int(np.ceil(coverage / (1.0 - coverage) - 1e-9))
    counts = np.bincount(codes, minlength=len(classes))
    if limits.class_conditional:
        few = np.flatnonzero(counts < needed)
        if len(few):
            named = ", ".join(f"{classes[k]} ({counts[k]})" for k in few[:5])
            more = ", …" if len(few) > 5 else ""
            warn_caller(
                f"a coverage of {coverage:g} in every class needs at least {needed} held-out "
                f"labels per class; in the sets of all nodes are: {named}{more}. Give more labels, "
                "or ask for less"
            )
    elif len(codes) < needed:
        warn_caller(
            f"a coverage of {coverage:g} needs at least {needed} held-out labels, and there are "
            f"{len(codes)}: all sets hold all classes. Give more labels, or ask for less"
        )
    elif not limits.least.any():
        warn_caller(
            f"the {count_of(len(codes), 'held-out label')} do not suffice for a coverage of "
            f"{coverage:g}: all sets hold all classes. Give more labels, or ask for less"
        )


class PredictionSets:
    """Mixin of `NodeClassifier`: sets of classes with a guarantee."""

    fitted_: Fitted

    def predict_set(
        self,
        coverage: float = 0.9,
        *,
        X: Any = None,
        graph: Any = None,
        class_conditional: bool = False,
    ) -> NDArray[np.bool_]:
        """Return for each node the classes among which its true one is, as often as asked.

        The guarantee is about unlabelled nodes on average. It holds where labelled nodes were drawn
        at random, from all nodes or from each class; elsewhere nobody can give one. Sets allow for
        wrong labels, as many as held-out labels tell. A set is empty where no class is likely
        enough: the others reach the coverage without this node. At labelled nodes, the same limits
        apply to their probabilities, which take their labels into account.

        Parameters
        ----------
        coverage : float
            How often sets must hold the true class, between 0 and 1.
        X, graph : optional
            New nodes, as in :meth:`predict`; by default sets are for the fitted nodes. Experts that
            cannot judge new nodes were part of what was calibrated, so that the guarantee is
            approximate.
        class_conditional : bool
            Whether the coverage must hold among the nodes of every class. Sets are larger then, and
            a class with too few labels is in all of them.

        Returns
        -------
        ndarray of bool, shape (n or n_new, K)
            Columns as in `classes_`. All classes, with a warning, if there are too few held-out
            labels: at least ``coverage / (1 - coverage)``.

        Examples
        --------
        >>> from nodeproof import NodeClassifier
        >>> from nodeproof.datasets import make_planted
        >>> data = make_planted(random_state=0)
        >>> clf = NodeClassifier(random_state=0).fit(data.X, data.y, graph=data.graph)
        >>> clf.predict_set(0.9)[:2]
        array([[False,  True, False],
               [False, False,  True]])
        """
        check_is_fitted(self)
        limits = limits_of(self.fitted_, coverage, class_conditional)
        fitted = X is None and graph is None
        proba = self.fitted_.proba if fitted else self.predict_proba(X, graph=graph)  # type: ignore[attr-defined]
        return limits.sets(proba)

    def unassigned(
        self, coverage: float = 0.9, *, class_conditional: bool = False
    ) -> NDArray[np.bool_]:
        """Return which nodes have no or several classes in their set, shape (n,).

        Parameters are those of :meth:`predict_set`. All other nodes have a single class, the most
        probable one.
        """
        return self.predict_set(coverage, class_conditional=class_conditional).sum(axis=1) != 1
