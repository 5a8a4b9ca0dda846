"""Try every combination of some settings and keep the best by cross-validation."""

from __future__ import annotations

from contextlib import closing
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import ParameterGrid

from nodeproof.errors import InputError
from nodeproof.model_selection.cross_validation import Fit, Nodes, as_splits, run
from nodeproof.model_selection.scores import Score, as_scores
from nodeproof.model_selection.splitters import Split
from nodeproof.runtime.logs import logger, shown

__all__ = ["GridSearch"]


class GridSearch(ClassifierMixin, MetaEstimatorMixin, BaseEstimator):
    """Choose the settings of a classifier by its predictions of hidden labels.

    Every combination is fitted on every split, to the whole graph and all features but the labels
    of the training nodes alone, and scored at the validation nodes of the split, or, if it has
    none, at its test nodes.

    Parameters
    ----------
    clf : estimator
        A NodeClassifier, or anything with ``fit(X, y, *, graph)`` that then has ``labels_``,
        ``proba_`` and ``classes_``.
    grid : dict of lists, or list of such dicts
        The values to try, by the name of the setting.
    cv : int, splitter or list of Split
        A number stands for the folds of `LabelKFold`.
    scoring : str or callable
        As in `cross_validate`. The best is the highest, or the lowest of "log_loss", "brier" and
        "expected_calibration_error"; for a function the highest.
    n_jobs : int, optional
        Processes, which share the cores; −1 for one per core. By default the fits run one after
        another in this process. The result does not depend on it.
    refit : bool
        Whether to fit the best settings to all labels at the end.
    random_state : int, RandomState or None
        Seed of the folds if `cv` is a number.
    verbose : bool
        Print each combination that is finished to the standard error stream; or, where logging is
        configured, leave it to the logger ``nodeproof``.

    Attributes
    ----------
    best_params_ : dict
        The best settings; the first of equals.
    best_score_ : float
        Their mean score; as the best of several, it is slightly optimistic.
    best_index_ : int
        Their index in `cv_results_`.
    best_estimator_ : estimator
        Fitted with them to all labels.
    cv_results_ : dict
        One entry per combination: "params", "mean_test_score", "std_test_score",
        "rank_test_score" (1 is best), "mean_fit_seconds" and, for each split, "split0_test_score"
        and so on.
    labels_, proba_, classes_ : ndarray
        Those of `best_estimator_`.

    Examples
    --------
    >>> from nodeproof import NodeClassifier
    >>> from nodeproof.datasets import make_planted
    >>> from nodeproof.model_selection import GridSearch
    >>> from nodeproof.terms import Covariance, Labels
    >>> data = make_planted(cluster_size=50, random_state=0)
    >>> grid = {"terms": [[Covariance(shrinkage=k), Labels()] for k in (30, 1)]}
    >>> search = GridSearch(NodeClassifier(random_state=0), grid, cv=3, random_state=0)
    >>> search.fit(data.X, data.y, graph=data.graph).best_params_["terms"][0]
    Covariance(shrinkage=1, intercept=False)
    >>> bool((search.labels_ == data.y_true).mean() > 0.95)
    True
    """

    def __init__(
        self,
        clf: Any,
        grid: Any,
        *,
        cv: Any = 5,
        scoring: Any = "log_loss",
        n_jobs: int | None = None,
        refit: bool = True,
        random_state: Any = None,
        verbose: bool = False,
    ) -> None:
        self.clf = clf
        self.grid = grid
        self.cv = cv
        self.scoring = scoring
        self.n_jobs = n_jobs
        self.refit = refit
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: Any = None, y: Any = None, *, graph: Any = None) -> Self:
        """Try all combinations; then fit the best to all labels.

        Parameters
        ----------
        X : array of shape (n, m), optional
            Features.
        y : array of shape (n,)
            Labels; −1 (or None, NaN, an empty string) where unknown.
        graph : object, optional
            The links, in any form that `clf` takes.

        Raises
        ------
        KeyboardInterrupt
            On Ctrl-C. As after any error, `cv_results_` has the combinations that were finished
            by then, and `best_params_` the best of these.
        """
        for name in [name for name in vars(self) if name.endswith("_")]:
            delattr(self, name)
        nodes = Nodes.of(X, y, graph)
        scores = as_scores(self.scoring)
        if len(scores) > 1:
            raise InputError("settings can be chosen by one score only: scoring lists several")
        candidates = list(ParameterGrid(self.grid))
        splits = as_splits(self.cv, nodes.labels, self.random_state)
        fits = [
            Fit(self._with(params), split, _chosen_on(split), f"{_listed(params)}, split {number}")
            for params in candidates
            for number, split in enumerate(splits)
        ]
        for fit in fits[: len(splits)]:
            nodes.check(fit)
        values = np.full((len(candidates), len(splits)), np.nan)
        seconds = np.full(values.shape, np.nan)
        left = np.full(len(candidates), len(splits))
        try:
            with (
                shown(self.verbose),
                closing(run(fits, nodes, scores, n_jobs=self.n_jobs)) as outcomes,
            ):
                for number, outcome in outcomes:
                    values.flat[number], seconds.flat[number] = outcome.scores[0], outcome.seconds
                    place = number // len(splits)
                    left[place] -= 1
                    if self.verbose and left[place] == 0:
                        done = f"{(left == 0).sum()} of {len(left)}  {_listed(candidates[place])}"
                        _report(done, scores[0], values[place], seconds[place])
        finally:
            finished = np.flatnonzero(left == 0)
            params = [candidates[place] for place in finished]
            self._keep(params, values[finished], seconds[finished], scores[0])
        if self.refit:
            self.best_estimator_ = self._with(self.best_params_).fit(X, y, graph=graph)
        return self

    def predict(self, X: Any = None, *, graph: Any = None) -> NDArray[Any]:
        """Return the predictions of the best classifier."""
        return np.asarray(self._best().predict(X, graph=graph))

    def predict_proba(self, X: Any = None, *, graph: Any = None) -> NDArray[np.float64]:
        """Return the probabilities of the best classifier."""
        return np.asarray(self._best().predict_proba(X, graph=graph))

    def score(
        self, X: Any = None, y: Any = None, sample_weight: Any = None, *, graph: Any = None
    ) -> float:
        """Return the accuracy of the best classifier, as :meth:`NodeClassifier.score` does."""
        return float(self._best().score(X, y, sample_weight, graph=graph))

    @property
    def labels_(self) -> NDArray[Any]:
        """The class of every node, shape (n,), by the best classifier."""
        return np.asarray(self._best().labels_)

    @property
    def proba_(self) -> NDArray[np.float64]:
        """The class probabilities of every node, shape (n, K), by the best classifier."""
        return np.asarray(self._best().proba_)

    @property
    def classes_(self) -> NDArray[Any]:
        """The names of the classes, shape (K,), in the order of the columns of `proba_`."""
        return np.asarray(self._best().classes_)

    def _best(self) -> Any:
        if not hasattr(self, "best_estimator_"):
            raise NotFittedError(
                "this GridSearch has no best_estimator_: call fit first, with refit=True"
            )
        return self.best_estimator_

    def _with(self, params: dict[str, Any]) -> Any:
        return clone(self.clf).set_params(**clone(params, safe=False))

    def _keep(
        self,
        params: list[dict[str, Any]],
        values: NDArray[np.float64],
        seconds: NDArray[np.float64],
        score: Score,
    ) -> None:
        means = values.mean(axis=1)
        losses = means if score.lower_is_better else -means
        ranks = rankdata(np.where(np.isnan(losses), np.inf, losses), method="min").astype(int)
        self.cv_results_ = {
            "params": params,
            "mean_test_score": means,
            "std_test_score": values.std(axis=1),
            "rank_test_score": ranks,
            "mean_fit_seconds": seconds.mean(axis=1),
            **{f"split{k}_test_score": column for k, column in enumerate(values.T)},
        }
        if params:
            self.best_index_ = int(ranks.argmin())
            self.best_params_ = params[self.best_index_]
            self.best_score_ = float(means[self.best_index_])


def _chosen_on(split: Split) -> NDArray[np.intp]:
    """Return the nodes to score at: validation nodes if there are any, else test nodes."""
    return split.validation if len(split.validation) else split.test


def _listed(params: dict[str, Any]) -> str:
    return ", ".join(f"{name}={value!r}" for name, value in params.items()) or "as given"


def _report(
    done: str, score: Score, values: NDArray[np.float64], seconds: NDArray[np.float64]
) -> None:
    logger.info(
        "%s  %s %.4f ± %.4f  %.2g s per fit",
        done,
        score.name,
        values.mean(),
        values.std(),
        seconds.mean(),
    )
