"""NodeRegressor: validates the input, fits it, and exposes the results."""

from __future__ import annotations

from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.metrics import r2_score
from sklearn.utils.validation import check_is_fitted, validate_data

from nodeproof.errors import InputError
from nodeproof.inputs.node_names import align_rows, names_of_rows
from nodeproof.inputs.node_tables import read_new_features
from nodeproof.inputs.targets import read_targets
from nodeproof.outcome_warnings import explaining_split_graphs
from nodeproof.regression import FittedTargets, RegressionSettings, fit_targets
from nodeproof.regression.data import TargetData

__all__ = ["NodeRegressor"]

# Attributes of `FittedTargets` that are exposed, with a trailing underscore.
_SHOWN = ("predictions", "suspects", "choices", "estimated_error")


class NodeRegressor(RegressorMixin, BaseEstimator):
    """Predict a number for every node of a graph from its links, its features and known numbers.

    Ridge regression on features, own and averaged over links, targets passed on along links, and
    boosted trees are pooled, by how well they foretell targets that are held out of them. Intervals
    hold the true number as often as asked.

    Parameters
    ----------
    experts : "auto" or list of str
        What is pooled: some of "features", "smoothed", "propagation", "residuals" and "trees", or
        what to leave out, such as ``["-trees"]``.
    prepare : "auto", bool, or list of "one-hot", "impute", "scale"
        What is done to a table of features, as by :class:`nodeproof.NodeClassifier`.
    n_jobs : int, optional
        Threads; by default all cores, or OMP_NUM_THREADS. The result does not depend on it.
    random_state : int, RandomState or None
        Seed of the folds: the same seed gives the same bits.
    verbose : bool
        Print progress to standard error, or to the logger ``nodeproof``.

    Attributes
    ----------
    predictions_ : ndarray of shape (n,)
        Of all nodes. Where a target was given, by fits that have not seen it: the difference tells
        how far off predictions are.
    estimated_error_ : ErrorEstimate or None
        By held-out targets: ``rmse``, ``r2``, both with a 95 % interval, and ``mae``; None with a
        single target.
    suspects_ : record array with the fields node, given, predicted, times_off
        Targets that are off by more than 6 times the usual error, the farthest first.
    choices_ : dict
        Record of automatic choices: weights, settings and errors of the experts, and why others
        were left out; neighbours of ``graph="knn"``; whether widths of intervals differ.
    node_ids_ : ndarray of shape (n,)
        Names of the nodes, if the graph or the index of `X` or `y` has any.
    n_features_in_, feature_names_in_
        As in scikit-learn, if there are features.
    fitted_ : FittedTargets
        All of this as one frozen object.

    Examples
    --------
    >>> import numpy as np
    >>> from nodeproof import NodeRegressor
    >>> rng = np.random.default_rng(0)
    >>> ring = np.stack([np.arange(200), (np.arange(200) + 1) % 200], axis=1)
    >>> truth = 20 + 5 * np.sin(np.arange(200) * np.pi / 50)
    >>> y = np.where(rng.random(200) < 0.4, truth + rng.normal(0, 0.3, 200), np.nan)
    >>> reg = NodeRegressor(random_state=0).fit(y=y, graph=ring)
    >>> bool(reg.score(y=truth) > 0.9)
    True
    >>> low, high = reg.predict_interval(0.9).T
    >>> bool(((low <= truth) & (truth <= high)).mean() > 0.8)
    True
    """

    def __init__(
        self,
        *,
        experts: Any = "auto",
        prepare: Any = "auto",
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: Any = False,
    ) -> None:
        self.experts, self.prepare = experts, prepare
        self.n_jobs, self.random_state, self.verbose = n_jobs, random_state, verbose

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def fit(self, X: Any = None, y: Any = None, *, graph: Any = None) -> Self:
        """Predict every node.

        Parameters
        ----------
        X : array, sparse matrix or table of shape (n, m), optional
            Features. Sparse ones are taken to be counts. Of a table with text or missing values,
            see `prepare`.
        y : array of shape (n,), dict or str
            Numbers; NaN or None where unknown (−1 is a number). A dict, or a Series with names in
            its index, is matched with the names of `X` or of the graph, and may name only some of
            the nodes. A string is the column of the table `X` with the targets.
        graph : object, optional
            The links, as :meth:`nodeproof.NodeClassifier.fit` takes them; "knn" for links to the
            nearest neighbours by `X`.
        """
        settings = RegressionSettings.of(self)
        settings.check()
        new = NodeRegressor()  # a refused fit leaves this one as it was
        with explaining_split_graphs(graph):
            check = partial(validate_data, new, reset=True)
            data = TargetData.read(X, y, graph, self.prepare, check)
        if data.parts.feature_names is None and "feature_names_in_" in vars(new):
            data = data.with_feature_names(new.feature_names_in_)
        self._show(fit_targets(data, settings))
        return self

    def _show(self, fitted: FittedTargets) -> None:
        """Set the attributes of a fit, and remove those of an earlier one."""
        self.fitted_ = fitted
        for name in _SHOWN:
            setattr(self, f"{name}_", getattr(fitted, name))
        for name, value in (
            *(("n_features_in_", fitted.n_features), ("feature_names_in_", fitted.feature_names)),
            ("node_ids_", fitted.node_ids),
        ):
            self.__dict__.pop(name, None)
            if value is not None:
                setattr(self, name, value)

    def predict(self, X: Any = None, *, graph: Any = None) -> NDArray[Any]:
        """Return `predictions_`, or predictions for new nodes, shape (n or n_new,).

        Parameters
        ----------
        X : array, sparse matrix or table of shape (n_new, m), optional
            Features of nodes that were not fitted.
        graph : object, optional
            Their links, as in :meth:`nodeproof.NodeClassifier.predict`.
        """
        return self._judge(X, graph)[0]

    def predict_interval(
        self, coverage: float = 0.9, *, X: Any = None, graph: Any = None
    ) -> NDArray[Any]:
        """Return for each node an interval that holds its true number as often as asked.

        The guarantee is about nodes without a target on average. It holds where the nodes with one
        were drawn at random; elsewhere nobody can give one. It is by the conformal code of
        :meth:`nodeproof.NodeClassifier.predict_set`: how far predictions of held-out targets are
        off, one more node counted as missed. Where held-out targets tell that some nodes are harder
        than others, their intervals are wider.

        Parameters
        ----------
        coverage : float
            How often intervals must hold the true number, between 0 and 1.
        X, graph : optional
            New nodes, as in :meth:`predict`; by default intervals are for the fitted nodes.

        Returns
        -------
        ndarray of shape (n or n_new, 2)
            Lower and upper ends; infinite, with a warning, if there are too few targets: at least
            ``coverage / (1 - coverage)``.
        """
        predictions, spread = self._judge(X, graph)
        half = self.fitted_.half_width(coverage) * spread
        return np.column_stack([predictions - half, predictions + half])

    def score(
        self, X: Any = None, y: Any = None, sample_weight: Any = None, *, graph: Any = None
    ) -> float:
        """Return R²: on the fitted nodes, ``score(y=y)``, or on new ones.

        Parameters
        ----------
        X, graph : optional
            New nodes, as in :meth:`predict`; ``graph=[]`` if they have no links.
        y : array of shape (n or n_new,)
            True numbers, NaN or None where unknown. Fitted nodes whose target was given count by
            predictions that have not seen it.
        sample_weight : array of shape (n or n_new,), optional
            Weights of the nodes.
        """
        check_is_fitted(self)
        if y is None:
            raise InputError(
                "score needs the true numbers: score(y=y), or score(X, y, graph=links)"
            )
        predictions = self._judge(X, graph)[0]
        new = X is not None or graph is not None
        names = names_of_rows(X, "X") if new else self.fitted_.node_ids
        truth = read_targets(align_rows(y, names, "y", "X" if new else "the fit"))
        if len(truth) != len(predictions):
            raise InputError(
                f"y has {len(truth)} entries for {len(predictions)} {'new' if new else 'fitted'} "
                "nodes"
            )
        known = ~np.isnan(truth)
        if not known.any():
            raise InputError("y has no known targets")
        weight = None if sample_weight is None else np.asarray(sample_weight)[known]
        return float(r2_score(truth[known], predictions[known], sample_weight=weight))

    def _judge(self, X: Any, graph: Any) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return predictions, and factors of the widths of their intervals."""
        check_is_fitted(self)
        fitted = self.fitted_
        if X is None and graph is None:
            return fitted.predictions.copy(), fitted.spread
        fitted.check_parts(X, graph)
        check = partial(validate_data, self, reset=False)
        how, columns = fitted.preparation, fitted.feature_names
        X, names = read_new_features(X, graph, how, columns, check)
        return fitted.judge(X, graph, names)

    def report(
        self, path: str | PathLike[str], *, coverage: float | None = None, title: str = ""
    ) -> Path:
        """Write a report on the fit as one self-contained HTML page, and return its path.

        Parameters
        ----------
        path : path
            The file to write.
        coverage : float, optional
            Of intervals, shown beside usual ones.
        title : str
            Heading of the page.
        """
        from nodeproof.report.targets import write_target_report

        check_is_fitted(self)
        write_target_report(self.fitted_, path, coverage=coverage, title=title)
        return Path(path)

    def save(self, path: str | PathLike[str]) -> None:
        """Write the fitted model to one file, without pickle."""
        check_is_fitted(self)
        from nodeproof.saving.targets import save_targets

        save_targets(self.fitted_, path)

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Self:
        """Read a model written by `save`; its predictions are the same, bit for bit."""
        from nodeproof.saving.targets import load_targets

        fitted = load_targets(path)
        reg = cls(**vars(fitted.settings))
        reg._show(fitted)
        return reg
