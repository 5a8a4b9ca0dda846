"""NodeClassifier: validates, chooses, delegates."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from nodeproof.arrangement import Arrangement
from nodeproof.auto.counting import FEWEST, choose_n_classes
from nodeproof.auto.held_out import hold_back
from nodeproof.auto.merging import Family
from nodeproof.auto.plans import choose_plan
from nodeproof.auto.settings import (
    Choices,
    choose_null_model,
    choose_probabilities,
    choose_solver,
    choose_weights,
    most_certain,
)
from nodeproof.auto.tuning import Tuned
from nodeproof.certificate import Certificate, Stage
from nodeproof.certificate.labelling.certify import certify_instance, labelling_problem
from nodeproof.certificate.labelling.instance import Instance
from nodeproof.convex.results import ConvexResult
from nodeproof.distributed import as_engine
from nodeproof.errors import InputError
from nodeproof.evidence import find_suspects, source_shares
from nodeproof.graph import Graph
from nodeproof.inputs import (
    EncodedLabels,
    Unit,
    check_features,
    check_reach,
    check_validation,
    encode_labels,
    warn_of_typos,
    with_short_indices,
)
from nodeproof.inputs.features import check_columns
from nodeproof.inputs.graph_objects import is_table
from nodeproof.inputs.node_names import keep_names, names_of_rows
from nodeproof.inputs.tensors import plain
from nodeproof.inputs.unpacking import unpack
from nodeproof.outcome_warnings import naming_our_search, warn_of_missing_links, warn_of_outcome
from nodeproof.prediction import Kept, check_parts, judge_new_nodes
from nodeproof.problem import Problem
from nodeproof.query import most_telling, most_uncertain
from nodeproof.report.cards import classifier_card
from nodeproof.runtime import threads
from nodeproof.runtime.digests import Untouched
from nodeproof.runtime.logs import level_of, logger, reporter, shown
from nodeproof.scoring import accuracy_of
from nodeproof.settings import check_candidates, check_settings, check_sizes
from nodeproof.smoothing import Smoothing
from nodeproof.solvers import BlockCADO, Result, Status
from nodeproof.solvers.align import align_with_labels
from nodeproof.solvers.base import check_count
from nodeproof.solvers.checkpoint import Checkpoint
from nodeproof.solvers.needs import check_rows, needs_of
from nodeproof.terms import NodeData

if TYPE_CHECKING:
    from nodeproof.report.findings import Findings

__all__ = ["NodeClassifier"]

# How far features are averaged to tell which nodes are alike.
_QUERY_HOPS = 16


class NodeClassifier(ClassifierMixin, BaseEstimator):
    """Label every node of a graph from its links, its features and a few labels.

    Any of the three may be missing. Labels may be wrong: how often is estimated, and those
    that look wrong are listed.

    Parameters
    ----------
    n_classes : int, optional
        Number of classes; by default that of the distinct labels or, without any label, the
        one that describes the data in the fewest words.
    terms : "auto" or list of Term
        What is made of features and labels; see :mod:`nodeproof.terms`.
    null_model : {"auto", "uniform", "degree"}
        How many links chance would give two nodes: equally many, or by their degrees.
    threshold : "auto" or float
        Density of links that counts as neutral, for fixed weights ("auto": the paper's 1/2, or
        the graph's density for the convex solvers). Calibrated weights estimate it.
    weights : "auto", "calibrated", float or (β_g, β_f, β_l)
        How the sources are weighed: by their likelihoods, or as in the paper. A number is how
        far the graph's likelihood is trusted, 1 for "calibrated"; "auto" chooses it by labels
        that are held back, where features or links are not what the likelihood assumes.
    son : float
        Weight μ1 ≥ 0 of the sum of norms, which pulls class models together; needs weights
        (β_g, β_f, β_l).
    solver : "auto", "block", "cado", "sdp", "admm", "cano" or a solver object
        See :mod:`nodeproof.solvers`. The last three solve the paper's convex program, for some
        hundred nodes, with a lower bound. They, and an object, have settings of their own; those
        below then do not count, but the seed does for a name.
    temperature : float
        1 gives probabilities, 0 hard assignments.
    n_init : int or "auto"
        Number of starts.
    max_iter : int
        Most sweeps of one start, from one re-fit of a classifier to the next.
    tol : float
        Stop when rows change by less, on average over the nodes.
    engine : None, "dask" or distributed.Client
        Where sweeps are done: on this machine, on the Dask cluster that was connected to last, or
        on the given one. The result does not depend on it.
    n_jobs : int, optional
        Threads; by default every core, or as many as OMP_NUM_THREADS says. The result does not
        depend on it.
    random_state : int, RandomState or None
        Seed: the same one gives the same bits.
    verbose : bool or callable
        Print progress to the standard error stream (or, where logging is configured, leave it
        to the logger ``nodeproof``); or call this after every sweep with a
        :class:`nodeproof.solvers.Progress`.

    Attributes
    ----------
    labels_ : ndarray of shape (n,)
        The class of every node.
    proba_ : ndarray of shape (n, K), float32
        Class probabilities of every node. Where all of m labels name one class, and `n_classes`
        is not given, it has no more than (m + 1)/(m + 2): the rest is for classes that nothing is
        known of.
    classes_ : ndarray of shape (K,)
        Names of the classes, in the order of the columns of `proba_`.
    suspects_ : record array with the fields node, given, suggested, p_wrong
        Labelled nodes whose label is probably wrong, most suspect first.
    sources_ : dict
        Shares of "graph", "features" and "labels" in the decisions.
    choices_ : dict
        What was chosen where "auto" was asked for, and why.
    estimated_accuracy_ : (float, float, float) or None
        At the nodes without a label: an estimate and its 95 % interval, by labels that were
        held back; None where none were.
    lower_bound_ : float or None
        What the objective of no labelling can undercut, from the convex solvers.
    node_ids_ : ndarray of shape (n,)
        What the nodes are called, if the graph or the index of `X` or `y` has names for them.
    n_iter_ : int
        Sweeps of the start that was kept.
    history_ : dict of list
        How they went.
    status_ : str
        How the solver ended.
    objective_ : float
        Free energy of the rows that were found, or φ for CADO (lower is better).

    Examples
    --------
    >>> from nodeproof import NodeClassifier
    >>> from nodeproof.datasets import make_planted
    >>> data = make_planted(label_accuracy=0.7, random_state=0)
    >>> clf = NodeClassifier(random_state=0).fit(data.X, data.y, graph=data.graph)
    >>> round(float((clf.labels_ == data.y_true).mean()), 3)
    0.998
    >>> wrong = (data.y >= 0) & (data.y != data.y_true)
    >>> len(clf.suspects_), int(wrong[clf.suspects_.node].sum()), int(wrong.sum())
    (57, 57, 57)
    """

    def __init__(
        self,
        n_classes: int | None = None,
        *,
        terms: Any = "auto",
        null_model: str = "auto",
        threshold: Any = "auto",
        weights: Any = "auto",
        son: float = 0.0,
        solver: Any = "auto",
        temperature: float = 1.0,
        n_init: Any = "auto",
        max_iter: int = 300,
        tol: float = 1e-3,
        engine: Any = None,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: Any = False,
    ) -> None:
        self.n_classes = n_classes
        self.terms = terms
        self.null_model = null_model
        self.threshold = threshold
        self.weights = weights
        self.son = son
        self.solver = solver
        self.temperature = temperature
        self.n_init = n_init
        self.max_iter = max_iter
        self.tol = tol
        self.engine = engine
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    @property
    def _repr_html_(self) -> Any:
        # Raises AttributeError where scikit-learn is set to show text.
        diagram = super()._repr_html_
        return partial(classifier_card, self) if hasattr(self, "proba_") else diagram

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, str]:
        bundle: dict[str, str] = super()._repr_mimebundle_(**kwargs)
        return {**bundle, "text/html": self._repr_html_()} if "text/html" in bundle else bundle

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

        Parameters
        ----------
        X : array or sparse matrix of shape (n, m), optional
            Features. Sparse ones are taken for counts.
        y : array of shape (n,), optional
            Integer or string labels; −1 (or None, NaN, an empty string) where unknown. A Series
            whose index has names is matched with those of `X` or of the graph, and may name some
            of the nodes only; see :mod:`nodeproof.inputs.node_names`.
        graph : object, optional
            The links: scipy sparse matrix, square array, networkx or igraph graph, PyTorch
            Geometric ``Data``, AnnData, ``edge_index`` of shape (2, E), table of edges; or the
            path of a folder that `nodeproof convert` wrote, for a graph larger than memory. See
            :mod:`nodeproof.interop`.
        validation : pair of arrays, or array of shape (n,), optional
            Labels to choose settings by, instead of holding back labels of `y` in turn: nodes
            and their labels, or one entry a node with −1 where there is none. They are not
            fitted to.
        checkpoint : path or Checkpoint, optional
            Folder where the state of a long fit is saved every minute, and at the end. A fit
            that was cut off goes on from there when it is called again, and ends with the same
            bits; one that has ended returns them at once. A fit of other data or settings
            replaces the state of one that has ended, and refuses that of one that has not. For
            block CADO.

        Raises
        ------
        KeyboardInterrupt
            On Ctrl-C, after what was done by then has been kept: the attributes are there.

        Notes
        -----
        `X` and the links are not copied. If they are changed in place afterwards, `certify`,
        `query`, `report` and `save` say so and refuse: they would be about other data.
        """
        check_settings(self)
        before = vars(self).copy()
        try:
            with threads.using(self.n_jobs), shown(self.verbose):
                self._fit(X, y, graph, validation, checkpoint)
        except BaseException:
            # Half of another fit would make the model of an earlier one wrong.
            self.__dict__.clear()
            self.__dict__.update(before)
            raise
        if self.status_ == Status.INTERRUPTED:
            raise KeyboardInterrupt
        return self

    def _fit(self, X: Any, y: Any, graph: Any, validation: Any, checkpoint: Any) -> None:
        if X is None and y is None and graph is None:
            raise InputError("fit needs features, labels or a graph: X, y and graph are all None")
        with naming_our_search(graph):
            X, y, graph, names = unpack(X, y, graph)
            X = self._check_features(X, reset=True)
            labels = y if isinstance(y, EncodedLabels) else encode_labels(y, self.n_classes)
            n = X.shape[0] if X is not None else labels.n_nodes
            network = None if graph is None else Graph(graph, self.null_model, n)
            check_sizes(X, labels, network)
        warn_of_typos(labels)

        choices: Choices = {}
        weights, threshold, trust = choose_weights(
            self.weights, self.threshold, self.solver, network, choices
        )
        # The paper's loss depends on the unit of the features. Likelihoods do not, nor on the
        # origin where a class has a mean; without one, features this far off say nothing anyway.
        dense = X is not None and not sp.issparse(X)
        self.unit_ = Unit.needed(X) if dense and weights == "calibrated" else None
        if self.unit_ is not None:
            X = self.unit_.apply(X)
        if X is not None:
            check_reach(X)
        # What is proven, saved and shown later is about the data as they are now. Links on disk
        # are not the caller's to change.
        links = None if network is None or network.folder is not None else network.adjacency
        untouched = Untouched({"X": X, "the graph": links})
        if network is not None:
            choose_null_model(network, self.null_model, choices)
        seed = _seed(self.random_state)
        solver = choose_solver(
            self.solver,
            choices,
            temperature=self.temperature,
            n_init=self.n_init,
            max_iter=self.max_iter,
            tol=self.tol,
            n_jobs=self.n_jobs,
            random_state=seed,
        )
        if isinstance(solver, BlockCADO) and solver.checkpoint is not None:
            # Of the fit that counts, not of the small ones that settings are chosen by.
            checkpoint = checkpoint or solver.checkpoint
            solver = replace(solver, checkpoint=None)
        K = len(labels.classes)
        given = nodes = NodeData(K or FEWEST, X, labels.codes, network)
        arrangement = Arrangement.of(given) if self._is_built_in(solver) else None
        if arrangement is not None:
            nodes = arrangement.arrange(given)
            network = nodes.graph
        if nodes.X is not None:
            nodes = replace(nodes, smoothing=Smoothing(nodes.X, network))
        held = None
        if nodes.y is not None:
            judged_by = check_validation(validation, labels, names)
            if judged_by is not None and arrangement is not None:
                judged_by = arrangement.position[judged_by[0]], judged_by[1]
            held = hold_back(nodes.y, judged_by)
        elif validation is not None:
            raise InputError("validation needs labels to fit: y is None or holds no label")
        if K and isinstance(solver, BlockCADO):
            check_rows(int(n or 0) if network is None else network.n_nodes, K)
        plan = choose_plan(self.terms, nodes, weights, trust, held, solver, choices)
        if plan.tuned is not None:
            solver = plan.tuned.setting.applied_to(solver)
        elif validation is not None:
            raise InputError(
                "validation has nothing to choose here: terms or weights are given, or every "
                "choice was clear; leave it out"
            )
        report = reporter(self.verbose)
        if arrangement is not None and callable(self.verbose):
            report = arrangement.shown(report)
        for name, asked in (("checkpoint", checkpoint), ("engine", self.engine)):
            if asked is not None and not (K and isinstance(solver, BlockCADO)):
                raise InputError(f"{name} needs the solver 'block', and labels or n_classes")
        if K:
            problem = Problem(network, plan.terms, K, weights, threshold, plan.trust, self.son)
            if isinstance(solver, BlockCADO):
                # Settings are chosen by small fits, here; the one that counts is made there.
                if self.engine is not None:
                    solver = replace(solver, engine=as_engine(self.engine))
                self._announce(problem, solver)
                if isinstance(checkpoint, str | PathLike):
                    checkpoint = Checkpoint(checkpoint)
                if checkpoint is not None:
                    solver = replace(solver, checkpoint=checkpoint)
            result = solver.solve(problem, callback=report)
            # Block CADO has done so already, if it was given the labels.
            if problem.labels is None or not isinstance(solver, BlockCADO):
                result = align_with_labels(result, nodes.y)
        else:
            family = Family(
                nodes, tuple(plan.terms), network, weights, threshold, plan.trust, self.son
            )
            problem, result = choose_n_classes(family, solver, seed, report, choices)
            labels = replace(labels, classes=np.arange(problem.n_classes))
            nodes = replace(nodes, n_classes=problem.n_classes)
        tuned = plan.tuned
        most = most_certain(self.n_classes, labels.codes)
        proba = np.asarray(
            choose_probabilities(problem, result, solver, tuned, most, choices), dtype=np.float32
        )
        blind = None if tuned is None else tuned.blind()
        if arrangement is not None:
            given = replace(given, n_classes=nodes.n_classes)
            nodes = arrangement.restore_nodes(given, nodes)
            problem = arrangement.restore_problem(problem, nodes)
            proba = proba[arrangement.position]
            blind = blind and blind.at(arrangement.order[blind.nodes])
        self._keep(problem, result, proba, labels, tuned, choices)
        self._held_back = blind
        keep_names(self, names)
        self._forget("map_labels_", "certified_nodes_")  # what a proof was about
        self._untouched = untouched
        self._nodes: NodeData | None = nodes
        self._problem: Problem | None = problem
        self._saved_problem: Instance | str | None = None
        self._findings: Findings | None = None
        self._certificate: Certificate | None = None

    def _is_built_in(self, solver: Any) -> bool:
        """Tell whether solver and terms draw on nothing but the data that they are handed.

        What users wrote themselves may know the nodes by their order.
        """
        given = [solver, *(self.terms if isinstance(self.terms, list | tuple) else [])]
        return all(type(part).__module__.startswith("nodeproof.") for part in given)

    def _announce(self, problem: Problem, solver: BlockCADO) -> None:
        """Say what the fit needs, and refuse what does not fit."""
        hard, spread = solver.temperature == 0, solver.engine is not None
        needs = needs_of(problem, solver.n_init, hard=hard, spread=spread)
        needs.check()
        if hasattr(self.verbose, "announce"):
            self.verbose.announce(needs)
        logger.log(level_of(self.verbose), "%d nodes: %s", problem.n_nodes, needs)

    @property
    def lower_bound_(self) -> float | None:
        """What the objective of no labelling can undercut, from the convex solvers."""
        check_is_fitted(self)
        return self.choices_.get("lower_bound", {}).get("value")

    def certify(
        self,
        *,
        tolerance: float | None = None,
        time_budget: float = 45.0,
        callback: Callable[[Stage], bool | None] | None = None,
    ) -> Certificate:
        """Prove the labelling the best of all for the fitted models, or bound how far it can be.

        `labels_` maximise each node's own probability; the labelling of least objective can
        differ at a few nodes, and is the one that is certified. Sets `map_labels_` to it, and
        `certified_nodes_` to the nodes that keep their label in every optimal labelling. Where
        nothing tells the names of the classes apart (`Certificate.renaming` is true), that holds
        up to these names: such nodes stay together, whatever their class is called.

        Parameters
        ----------
        tolerance, time_budget, callback
            As in :func:`nodeproof.certify`.
        """
        check_is_fitted(self)
        seed = _seed(self.random_state)
        proof = certify_instance(
            self._labelling_problem(),
            self.proba_.argmax(axis=1),
            tolerance=tolerance,
            time_budget=time_budget,
            callback=callback,
            random_state=0 if seed is None else seed,
            n_jobs=self.n_jobs,
        )
        self.map_labels_ = self.classes_[proof.labels]
        self.certified_nodes_ = proof.certified_nodes
        self._certificate = proof
        return proof

    def _labelling_problem(self) -> Instance | str:
        """Return the labelling problem of the fitted models, or why there is none to certify."""
        if self._saved_problem is not None:
            return self._saved_problem
        if self._problem is None:
            raise InputError(
                "this model was saved without the links and costs that a certificate is about: "
                "fit and save it again"
            )
        self._check_untouched()
        return labelling_problem(self._problem, self.models_)

    def _check_untouched(self) -> None:
        """Refuse to go on where the caller has changed what was fitted."""
        with threads.using(self.n_jobs):
            self._untouched.check()

    def predict(self, X: Any = None, *, graph: Any = None) -> NDArray[Any]:
        """Return `labels_`, or the labels of new nodes by their features and links.

        Nothing is fitted again: the time is proportional to the links.

        Parameters
        ----------
        X : array or sparse matrix of shape (n_new, m), optional
            Features of nodes that were not fitted.
        graph : object, optional
            Their links to fitted nodes: a sparse matrix or array of shape (n_new, n); or pairs
            (new node, fitted node, perhaps the weight) as an array of shape (E, 2) or (E, 3), or
            as a table with the columns new, fitted and perhaps weight. Nodes are named by their
            position in `X` and in `labels_`; in a table also by the index of `X` and by
            `node_ids_`.

        Returns
        -------
        ndarray of shape (n or n_new,)
        """
        codes = self._judge(X, graph).argmax(axis=1)
        return np.asarray(self.classes_[codes])

    def predict_proba(self, X: Any = None, *, graph: Any = None) -> NDArray[Any]:
        """Return `proba_`, or the class probabilities of new nodes by their features and links.

        Parameters
        ----------
        X, graph : optional
            As in :meth:`predict`.

        Returns
        -------
        ndarray of shape (n or n_new, K)
        """
        return self._judge(X, graph)

    def score(
        self, X: Any = None, y: Any = None, sample_weight: Any = None, *, graph: Any = None
    ) -> float:
        """Return the accuracy: at the fitted nodes, ``score(y=y)``, or at new ones.

        New nodes are given as to :meth:`predict`: ``score(X, y, graph=links)``, or ``score(X, y)``
        for a model that was fitted without a graph.

        Parameters
        ----------
        X, graph : optional
            Features of new nodes and their links to fitted ones, ``graph=[]`` if they have none;
            without either, the nodes that were fitted are judged.
        y : array of shape (n or n_new,)
            True labels. Nodes where they are unknown (−1, None, NaN) do not count; fitted nodes
            whose label was given to `fit` do, unless it is made unknown here.
        sample_weight : array of shape (n or n_new,), optional
            Weights of the nodes.

        Examples
        --------
        >>> from nodeproof import NodeClassifier
        >>> from nodeproof.datasets import make_planted
        >>> data = make_planted(cluster_size=50, p=0.4, random_state=0)
        >>> clf = NodeClassifier(random_state=0).fit(data.X, data.y, graph=data.graph)
        >>> bool(clf.score(y=data.y_true) == (clf.labels_ == data.y_true).mean())
        True
        """
        check_is_fitted(self)
        return accuracy_of(self, X, y, sample_weight, graph)

    def _judge(self, X: Any, graph: Any) -> NDArray[Any]:
        check_is_fitted(self)
        if X is None and graph is None:
            return self.proba_.copy()
        check_parts(self, X, graph)
        names = names_of_rows(X, "X") if is_table(graph) else None
        if X is not None:
            X = self._check_features(X, reset=False)
            if graph is None and self.fitted_on_graph_:
                warn_of_missing_links(self, X.shape[0])
        return judge_new_nodes(self, X, graph, names)

    def query(
        self,
        k: int,
        *,
        strategy: Literal["informative", "uncertainty"] = "informative",
        candidates: Any = None,
    ) -> NDArray[np.int64]:
        """Return the nodes to label next, best first: those whose label would tell most.

        Parameters
        ----------
        k : int
            How many; all candidates where there are fewer.
        strategy : {"informative", "uncertainty"}
            What a label would tell about all nodes, no two telling the same; or how uncertain
            the node itself is.
        candidates : array of int, optional
            Positions of nodes that can be labelled; by default all without a label.
        """
        return self._query(k, strategy, candidates)[0]

    def _query(
        self, k: int, strategy: str, candidates: Any = None
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Return the nodes to label next and what speaks for each."""
        check_is_fitted(self)
        check_count("k", k)
        if strategy not in ("informative", "uncertainty"):
            raise InputError(f"strategy must be 'informative' or 'uncertainty', got {strategy!r}")
        labelled = np.flatnonzero(self._given >= 0) if self._given is not None else np.arange(0)
        asked = check_candidates(candidates, len(self.proba_), labelled)
        if strategy == "uncertainty":
            return most_uncertain(self.proba_, k, asked)
        if self._nodes is None:
            raise InputError(
                "a model that was loaded has neither graph nor features to query by: use "
                "strategy='uncertainty', or fit again"
            )
        self._check_untouched()
        nodes = self._nodes
        smoothing = nodes.smoothing or (Smoothing.of_links(nodes.graph) if nodes.graph else None)
        if smoothing is None:
            return most_uncertain(self.proba_, k, asked)
        with threads.using(self.n_jobs):
            rows = smoothing.over(_QUERY_HOPS)
            return most_telling(self.proba_, rows, labelled, k, asked)

    def report(
        self,
        path: str | PathLike[str],
        *,
        certificate: Certificate | None = None,
        y_true: Any = None,
        title: str = "",
    ) -> None:
        """Write what was given and found as one HTML page that needs nothing else.

        Parameters
        ----------
        path : path
            The file to write.
        certificate : Certificate, optional
            What to say of the proof; by default the last that `certify` has found.
        y_true : array of shape (n,), optional
            True labels, −1 where unknown, to judge the probabilities of nodes without a label by;
            by default they are judged by given labels, each left out in its turn.
        title : str
            Heading of the page.
        """
        from nodeproof.report import write_report

        check_is_fitted(self)
        write_report(
            self, path, certificate=certificate or self._certificate, y_true=y_true, title=title
        )

    def _find(self) -> Findings:
        """Return what a report shows beside the attributes, found once."""
        from nodeproof.report.findings import find

        if self._findings is None:
            if self._problem is not None:
                self._check_untouched()
            with threads.using(self.n_jobs):
                self._findings = find(self)
        return self._findings

    def save(self, path: str | PathLike[str], *, certifiable: bool = True) -> None:
        """Write the fitted model to one file, without pickle.

        Parameters
        ----------
        certifiable : bool
            Whether links and costs go with it, so that `certify` and `report` work where it is
            loaded. They take as much room as the graph.
        """
        from nodeproof.saving.model import save_model

        check_is_fitted(self)
        save_model(self, path, certifiable)

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Self:
        """Read a model that `save` has written; its predictions are the same, bit for bit."""
        from nodeproof.saving.model import load_model

        return load_model(cls, path)

    def _forget(self, *attributes: str) -> None:
        """Drop what an earlier fit has left."""
        for name in attributes:
            self.__dict__.pop(name, None)

    def _check_features(self, X: Any, reset: bool) -> NDArray[Any] | None:
        if X is None:
            self._forget("n_features_in_", "feature_names_in_")
            return None
        X = plain(X)
        if np.ma.is_masked(X):
            X = X.astype(np.float64).filled(np.nan)  # refused where it is looked at
        check_columns(X)
        try:
            checked: NDArray[Any] = validate_data(
                self,
                X,
                reset=reset,
                accept_sparse="csr",
                dtype=[np.float64, np.float32],
                ensure_all_finite=False,
                order="C",
            )
        except ValueError as error:
            raise InputError(str(error)) from error
        if sp.issparse(checked):
            checked = with_short_indices(sp.csr_array(checked))
        check_features(checked, getattr(self, "feature_names_in_", None))
        return checked

    def _keep(
        self,
        problem: Problem,
        result: Result,
        proba: NDArray[np.float32],
        labels: EncodedLabels,
        tuned: Tuned | None,
        choices: Choices,
    ) -> None:
        codes = proba.argmax(axis=1)
        self.classes_ = labels.classes
        self.proba_ = proba
        self.labels_ = self.classes_[codes]
        self.suspects_ = find_suspects(proba, labels.codes, self.classes_)
        self.sources_ = source_shares(problem, proba, result.models)
        self.estimated_accuracy_ = None
        if tuned is not None and labels.codes is not None:
            self.estimated_accuracy_ = tuned.accuracy(proba[labels.codes < 0])
        if tuned is not None and self.estimated_accuracy_ is not None:
            estimate, low, high = self.estimated_accuracy_
            choices["accuracy"] = {
                "value": round(estimate, 4),
                "why": f"by {len(tuned.held.nodes)} labels held back; 95 % interval "
                f"{low:.3f} to {high:.3f}",
            }
        if isinstance(result, ConvexResult):
            why = f"no labelling has a lower objective; the program is solved to {result.gap:.1e}"
            choices["lower_bound"] = {"value": result.lower_bound, "why": why}
        self.choices_ = choices
        self.n_iter_ = result.n_iter
        self.history_ = result.history
        self.status_ = str(result.status)
        self.objective_ = result.value
        self.models_ = result.models
        self.terms_ = problem.terms
        self._given = labels.codes
        self.fitted_on_graph_ = problem.graph is not None
        self._kept = Kept.of_fit(problem, result.models, proba, tuned.scale if tuned else 1.0)
        warn_of_outcome(self, result)


def _seed(random_state: Any) -> int | None:
    if random_state is None or isinstance(random_state, int | np.integer):
        return None if random_state is None else int(random_state)
    return int(check_random_state(random_state).randint(2**31 - 1))
