"""NodeClassifier: validates the input, fits it, and exposes the results."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from nodeproof.certificate import Certificate, Stage
from nodeproof.errors import InputError
from nodeproof.fitted import Fitted
from nodeproof.fitting import FitData, fit_nodes
from nodeproof.inputs import encode_labels, read_features
from nodeproof.inputs.node_tables import read_new_features, read_node_table
from nodeproof.inputs.preparation import Preparation
from nodeproof.inputs.unpacking import unpack
from nodeproof.outcome_warnings import explaining_split_graphs
from nodeproof.prediction import accuracy_of, check_parts, judge_new_nodes
from nodeproof.prediction_sets import PredictionSets
from nodeproof.query import Queries
from nodeproof.report.cards import NotebookCard
from nodeproof.runtime import threads
from nodeproof.runtime.logs import shown
from nodeproof.settings import Settings
from nodeproof.solvers import Status
from nodeproof.solvers.checkpoint import Checkpoint
from nodeproof.terms.registry import allow_missing
from nodeproof.update import Updates

__all__ = ["NodeClassifier"]

# Attributes of `Fitted` that are exposed, with a trailing underscore.
_SHOWN = (
    "classes", "proba", "labels", "suspects", "sources", "choices", "estimated_accuracy",
    "lower_bound", "n_iter", "history", "status", "objective", "models", "terms", "unit",
)  # fmt: skip


class NodeClassifier(
    Updates, Queries, NotebookCard, PredictionSets, ClassifierMixin, BaseEstimator
):
    """Label every node of a graph from its links, its features and a few labels.

    Any of the three may be missing. Labels may be wrong: the share of wrong labels is estimated,
    and those that look wrong are listed.

    Parameters
    ----------
    n_classes : int, optional
        Number of classes; by default that of the distinct labels or, without any label, the one
        with the shortest description of the data.
    terms : "auto" or list of Term
        How features and labels are modelled; see :mod:`nodeproof.terms`.
    experts : "auto", or list of str and Expert
        What "auto" terms pool, weighed by held-out labels; see :mod:`nodeproof.experts`. Names
        (``["propagation", "links"]``), names to leave out (``["-trees"]``), experts of your own
        (``["auto", MyExpert()]``).
    null_model : {"auto", "uniform", "degree"}
        Expected links between two nodes: the same for all pairs, or by their degrees.
    threshold : "auto" or float
        Link density that counts as neutral, for fixed weights ("auto": the paper's 1/2, or the
        graph's density for the convex solvers). Calibrated weights estimate it.
    weights : "auto", "calibrated", float or (β_g, β_f, β_l)
        How the sources are weighted. "auto": by held-out labels, which weigh the `experts`; by
        their likelihoods if none can be held out or terms are given. "calibrated": by their
        likelihoods; a number is the trust in that of the graph. Three numbers: as in the paper.
    son : float
        Weight μ1 ≥ 0 of the sum of norms, which pulls class models together; needs weights
        (β_g, β_f, β_l).
    solver : "auto", "block", "cado", "cado-W", "sdp", "admm", "cano" or a solver object
        See :mod:`nodeproof.solvers`. The two "cado" are as published, the last three solve the
        convex program; these and objects ignore the settings below but the seed.
    temperature : float
        1 gives probabilities, 0 hard assignments.
    n_init : int or "auto"
        Number of starts.
    max_iter : int
        Maximum number of sweeps per start, between two refits of a classifier.
    tol : float
        Stop when memberships change by less, on average over the nodes.
    prepare : "auto", bool, or list of "one-hot", "impute", "scale"
        What is done to a table of features: text columns one-hot encoded, missing values
        filled, numbers scaled. "auto": all of it if `y` names a column of the table, else nothing.
    engine : None, "dask" or distributed.Client
        Where sweeps run: on this machine, on the most recently connected Dask cluster, or on that
        of the client. The result does not depend on it.
    n_jobs : int, optional
        Threads; by default all cores, or OMP_NUM_THREADS. The result does not depend on it.
    random_state : int, RandomState or None
        Seed: the same seed gives the same bits.
    verbose : bool or callable
        Print progress to standard error (or, if logging is configured, to the logger
        ``nodeproof``); or a function to call after every sweep with a
        :class:`nodeproof.solvers.Progress`.
    positive_only : bool
        Whether the labels, all of one class, tell it from all others: positive-unlabelled learning.

    Attributes
    ----------
    labels_ : ndarray of shape (n,)
        The class of every node.
    proba_ : ndarray of shape (n, K), float32
        Class probabilities of every node, calibrated on held-out labels if there are any. Without,
        they are damped if links are not as the model says; ``choices_["probabilities"]`` tells. If
        all m labels name one class and `n_classes` is not given, at most (m + 1)/(m + 2): the rest
        is for unknown classes.
    classes_ : ndarray of shape (K,)
        Names of the classes, in the order of the columns of `proba_`.
    suspects_ : record array with the fields node, given, suggested, p_wrong, excluded
        Labelled nodes whose label is probably wrong, most suspect first; `excluded` by `certify`.
    sources_ : dict
        Shares of "graph" (or of each kind of links), "features" and "labels" in the decisions.
    choices_ : dict
        Record of automatic choices: the values chosen for "auto", and the reasons. What held-out
        labels say is in "experts", "log_loss", "proportions", "scores" and "held_out".
    estimated_accuracy_ : (float, float, float) or None
        Expected share of the unlabelled nodes whose predicted class is right, with its 95 %
        interval, from labels held out of fits and of the weighing of experts; None without any.
    lower_bound_ : float or None
        Lower bound on the objective of every labelling, from the convex solvers.
    node_ids_ : ndarray of shape (n,)
        Names of the nodes, if the graph or the index of `X` or `y` has any.
    n_iter_, history_, status_, objective_
        Sweeps of the best start, their history, how the solver ended, and the free energy that it
        reached (φ for CADO; lower is better).
    fitted_ : Fitted
        All of this, and what prediction, certificates and reports need, as one frozen object.

    Examples
    --------
    >>> from nodeproof import NodeClassifier
    >>> from nodeproof.datasets import make_planted
    >>> data = make_planted(label_accuracy=0.7, random_state=0)
    >>> clf = NodeClassifier(random_state=0).fit(data.X, data.y, graph=data.graph)
    >>> wrong = (data.y >= 0) & (data.y != data.y_true)
    >>> len(clf.suspects_), int(wrong[clf.suspects_.node].sum()), int(wrong.sum())
    (57, 57, 57)
    """

    def __init__(
        self,
        n_classes: int | None = None,
        *,
        terms: Any = "auto",
        experts: Any = "auto",
        null_model: str = "auto",
        threshold: Any = "auto",
        weights: Any = "auto",
        son: float = 0.0,
        solver: Any = "auto",
        temperature: float = 1.0,
        n_init: Any = "auto",
        max_iter: int = 300,
        tol: float = 1e-3,
        prepare: Any = "auto",
        engine: Any = None,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: Any = False,
        positive_only: bool = False,
    ) -> None:
        self.n_classes = n_classes
        self.terms, self.experts = terms, experts
        self.null_model, self.threshold = null_model, threshold
        self.weights, self.son = weights, son
        self.solver, self.temperature, self.n_init = solver, temperature, n_init
        self.max_iter, self.tol, self.prepare = max_iter, tol, prepare
        self.engine, self.n_jobs = engine, n_jobs
        self.random_state, self.verbose, self.positive_only = random_state, verbose, positive_only

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def fit(
        self,
        X: Any = None,
        y: Any = None,
        *,
        graph: Any = None,
        validation: Any = None,
        checkpoint: str | PathLike[str] | Checkpoint | None = None,
    ) -> Self:
        """Label every node.

        `X` and the links are not copied. If they are changed in place afterwards, `certify`,
        `query`, `report` and `save` raise an error: they would be about other data. On Ctrl-C,
        KeyboardInterrupt is raised after the attributes have been set to the results so far.

        Parameters
        ----------
        X : array, sparse matrix or table of shape (n, m), optional
            Features. Sparse ones are taken to be counts. Of a table with text or missing values,
            see `prepare`.
        y : array of shape (n,), dict or str, optional
            Integer or string labels; −1 (or None, NaN, an empty string) where unknown. A dict, or
            a Series with names in its index, is matched with the names of `X` or of the graph, and
            may name only some of the nodes; see :mod:`nodeproof.inputs.node_names`. A string is
            the column of the table `X` with the labels.
        graph : object, optional
            The links: scipy sparse matrix, square array, networkx or igraph graph, PyTorch
            Geometric ``Data``, AnnData, ``edge_index`` of shape (2, E), list of pairs of shape
            (E, 2) or (E, 3), table of edges; "knn" for links to the nearest neighbours by `X`; or
            the path of a folder written by `nodeproof convert`. A dict of these: several kinds of
            links; `nodeproof.Directed` around one: with a direction. See :mod:`nodeproof.interop`.
        validation : pair of arrays, or array of shape (n,), optional
            Labels to choose settings on, instead of holding out labels of `y` in turn: nodes and
            their labels, or one entry per node with −1 where there is none. They are not fitted.
        checkpoint : path or Checkpoint, optional
            Folder where the state of a long fit is saved every minute, and at the end, for block
            CADO. Called again, an interrupted fit resumes from there and ends with the same
            bits; a finished one returns them at once. A fit of other data or settings replaces a
            finished state and refuses an unfinished one.
        """
        settings = Settings.of(self)
        settings.check()
        with threads.using(self.n_jobs), shown(self.verbose):
            data, how = self._read(X, y, graph)
            fitted = fit_nodes(data, settings, validation=validation, checkpoint=checkpoint)
            self._show(replace(fitted, preparation=how))
        if self.status_ == Status.INTERRUPTED:
            raise KeyboardInterrupt
        return self

    def _read(self, X: Any, y: Any, graph: Any) -> tuple[FitData, Preparation | None]:
        """Return the input as checked arrays, with the same nodes in the same order."""
        if X is None and y is None and graph is None:
            raise InputError("fit needs features, labels or a graph: X, y and graph are all None")
        with explaining_split_graphs(graph):
            X, y, graph, how = read_node_table(X, y, graph, self.prepare)
            X, y, graph, names = unpack(X, y, graph)
            new = NodeClassifier()  # a refused fit leaves this one as it was
            X = None if X is None else read_features(X, partial(validate_data, new, reset=True))
            labels, columns = encode_labels(y, self.n_classes), vars(new).get("feature_names_in_")
            columns = columns if how is None else np.array(how.features, dtype=object)
            parts = X, labels, graph, self.null_model, names, columns, allow_missing(self.terms)
            return FitData.build(*parts), how

    def _show(self, fitted: Fitted) -> None:
        """Set the attributes of a fit, and remove those of an earlier one."""
        self.fitted_, self.fitted_on_graph_ = fitted, fitted.on_graph
        self._certificate: Certificate | None = None
        for name in _SHOWN:
            setattr(self, f"{name}_", getattr(fitted, name))
        for name, value in (
            *(("n_features_in_", fitted.n_features), ("feature_names_in_", fitted.feature_names)),
            *(("node_ids_", fitted.node_ids), ("map_labels_", None), ("certified_nodes_", None)),
        ):
            self.__dict__.pop(name, None)
            if value is not None:
                setattr(self, name, value)

    def certify(
        self,
        *,
        tolerance: float | None = None,
        time_budget: float = 45.0,
        callback: Callable[[Stage], bool | None] | None = None,
    ) -> Certificate:
        """Prove that the labelling is optimal for the fitted models, or bound its gap.

        `labels_` maximise each node's own probability; the labelling of least objective can
        differ at a few nodes. Sets `map_labels_` to the best one found, which is certified,
        `certified_nodes_` to the nodes that keep their label in every optimal labelling (up to
        names of the classes if `Certificate.renaming`), and `excluded` in `suspects_` where no
        optimal labelling keeps the given label, right or wrong. Parameters: `nodeproof.certify`.
        """
        check_is_fitted(self)
        proof = self.fitted_.certify(
            tolerance=tolerance, time_budget=time_budget, callback=callback
        )
        self.map_labels_, self.certified_nodes_ = self.classes_[proof.labels], proof.certified_nodes
        self.suspects_, self._certificate = self.fitted_.suspects_by(proof), proof
        return proof

    def predict(self, X: Any = None, *, graph: Any = None) -> NDArray[Any]:
        """Return `labels_`, or the labels of new nodes by their features and links.

        Nothing is refitted: the time is proportional to the links.

        Parameters
        ----------
        X : array or sparse matrix of shape (n_new, m), optional
            Features of nodes that were not fitted.
        graph : object, optional
            Their links: a sparse matrix or array of shape (n_new, n) with those to fitted nodes,
            or (n_new, n + n_new) with those among new nodes in the last columns. Or pairs (new
            node, other node, optional weight) as an array of shape (E, 2) or (E, 3), or a table
            with the columns new, fitted and optionally weight. Nodes are named by their position
            in `X` and in `labels_`; in the second place, n + v is the new node v. A table may
            also name them by the index of `X` and by `node_ids_`. A dict for several kinds.

        Returns
        -------
        ndarray of shape (n or n_new,)
        """
        likeliest = self._judge(X, graph).argmax(axis=1)
        return np.asarray(self.classes_[likeliest])

    def predict_proba(self, X: Any = None, *, graph: Any = None) -> NDArray[Any]:
        """Return `proba_`, or the class probabilities of new nodes, shape (n or n_new, K).

        Parameters are those of :meth:`predict`.
        """
        return self._judge(X, graph)

    def score(
        self, X: Any = None, y: Any = None, sample_weight: Any = None, *, graph: Any = None
    ) -> float:
        """Return the accuracy: on the fitted nodes, ``score(y=y)``, or on new ones.

        Parameters
        ----------
        X, graph : optional
            New nodes, as in :meth:`predict`: ``score(X, y, graph=links)``, with ``graph=[]`` if
            they have no links, or ``score(X, y)`` for a model fitted without a graph.
        y : array of shape (n or n_new,)
            True labels. Nodes where they are unknown (−1, None, NaN) do not count; nodes whose
            label was given to `fit` do, unless it is unknown here.
        sample_weight : array of shape (n or n_new,), optional
            Weights of the nodes.
        """
        check_is_fitted(self)
        return accuracy_of(self.fitted_, self._judge, X, y, sample_weight, graph)

    def _judge(self, X: Any, graph: Any) -> NDArray[Any]:
        check_is_fitted(self)
        if X is None and graph is None:
            return self.proba_.copy()
        check_parts(self.fitted_, X, graph)
        how, columns = self.fitted_.preparation, self.fitted_.feature_names
        check = partial(validate_data, self, reset=False)
        missing = allow_missing(self.fitted_.terms)
        X, names = read_new_features(X, graph, how, columns, check, missing)
        return judge_new_nodes(self.fitted_, X, graph, names)

    def report(
        self,
        path: str | PathLike[str],
        *,
        certificate: Certificate | None = None,
        y_true: Any = None,
        title: str = "",
    ) -> Path:
        """Write a report on the fit as one self-contained HTML page, and return its path.

        Parameters
        ----------
        path : path
            The file to write.
        certificate : Certificate, optional
            The proof to show; by default the last one found by `certify`.
        y_true : array of shape (n,), optional
            True labels, −1 where unknown, to check the probabilities of unlabelled nodes; by
            default they are checked with held-out given labels.
        title : str
            Heading of the page.
        """
        from nodeproof.report import write_report

        check_is_fitted(self)
        proof = certificate or self._certificate
        write_report(self.fitted_, path, certificate=proof, y_true=y_true, title=title)
        return Path(path)

    def save(
        self, path: str | PathLike[str], *, certifiable: bool = True, data: bool | None = None
    ) -> None:
        """Write the fitted model to one file, without pickle.

        With links and costs if `certifiable`, so that `certify` and `report` work after loading;
        with links and features if `data`, so that `update` and `query` do (default: as the other).
        """
        check_is_fitted(self)
        from nodeproof.saving.model import save_model

        save_model(self.fitted_, path, certifiable, data)

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Self:
        """Read a model written by `save`; its predictions are the same, bit for bit."""
        from nodeproof.saving.model import load_model

        clf = cls(**vars((fitted := load_model(path)).settings))
        clf._show(fitted)
        return clf
