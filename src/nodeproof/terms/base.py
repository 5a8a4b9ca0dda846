"""What a term is, and all that the library asks of one, with defaults that suit most terms."""

from __future__ import annotations

import copy
import inspect
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from nodeproof.affinity import Affinity
from nodeproof.errors import InputError
from nodeproof.runtime import threads
from nodeproof.sets import ConvexSet
from nodeproof.storage.schema import Check, Expected, plain
from nodeproof.terms.checks import checked_costs
from nodeproof.terms.class_loss import ClassLoss, NodewiseLoss
from nodeproof.terms.new_nodes import NewNodeCosts, NewNodes
from nodeproof.terms.node_data import NodeData

__all__ = ["NodeData", "Term"]

Array = NDArray[np.float64]


class Term(ABC):
    """One kind of knowledge about nodes, with a model θ_i of it in each class.

    A term can be weighed in two ways. As in the paper, by a loss ``f(z_v; θ)``, convex in θ,
    that a node pays at its own mixture ``θ_v = Σ_i W_vi θ_i``; or *calibrated*, by the
    −log-likelihood of the node in each class.

    To add a term, write `bind`, `loss`, `loss_gradient` and `refit` for the first, `estimate`,
    `cost` and `penalty` for the second; where sums over the nodes are all it takes, make it a
    `SummableTerm`. Models are one array of shape (K, ...), and what a node costs depends on them
    and on its own data alone. Everything else has a default.
    """

    #: what the term draws on; also picks its weight out of (β_g, β_f, β_l)
    source: ClassVar[str]

    #: whether costs are −log p(class | data), proportions of the classes included, instead of
    #: −log p(data | class)
    discriminative: ClassVar[bool] = False

    #: whether the paper's loss is linear in θ
    linear: bool = False

    #: whether costs are no work to speak of: not worth a second thread
    light: ClassVar[bool] = False

    #: whether features may be sparse
    takes_sparse: ClassVar[bool] = False

    #: whether features come as they were given: NaN where they are missing, never shifted or scaled
    as_given: ClassVar[bool] = False

    #: whether sums over the nodes are how much of each label each class holds
    counts_labels: ClassVar[bool] = False

    #: how often the models are re-fitted once memberships have settled; None: after every sweep
    rounds: int | None = None

    #: where the models of the loss live; set by `bind`
    models_set: ConvexSet
    n_nodes: int
    n_classes: int

    @abstractmethod
    def bind(self, nodes: NodeData) -> Self:
        """Return a copy of this term that holds the data it needs."""

    def reordered(self, nodes: NodeData, position: NDArray[np.int64]) -> Self:
        """Return this bound term for the same nodes in another order; class models stay valid.

        Parameters
        ----------
        nodes : NodeData
            In the new order.
        position : ndarray of shape (n,)
            Where each node has been so far.
        """
        return self.bind(nodes)

    def rebound(self, nodes: NodeData) -> Self:
        """Return this term, restored from a file, for the nodes that it was fitted to."""
        return self.bind(nodes)

    def updated(self, changed: Any, given: NDArray[np.int64] | None) -> Self:
        """Return this term for the nodes after an update of a fitted model.

        Parameters
        ----------
        changed : nodeproof.auto.experts.base.Changed
            What has changed; `nodes` are those after it.
        given : ndarray of shape (n,), or None
            Labels before it, −1 where there was none.
        """
        return self.bind(changed.nodes)

    def foretold(self, changed: Any, nodes: NDArray[np.int64]) -> Array | None:
        """Return log-probabilities of nodes before an update, if the term has any, (any, K).

        They are at the class proportions of the labels, without the labels of these nodes.
        """
        return None

    def copy_for(self, nodes: NodeData) -> Self:
        """Return a copy for these nodes, without what was worked out for others: use it in `bind`.

        Raises
        ------
        InputError
            If the features or labels that the term is about are missing, or sparse features are
            given to a term that does not take them.
        """
        name = type(self).__name__
        if self.needs_features and nodes.X is None:
            raise InputError(f"{name} needs features: X is missing")
        if self.needs_features and not (self.takes_sparse or isinstance(nodes.X, np.ndarray)):
            raise InputError(
                f"{name} needs dense features, but X is sparse: reduce it first, for example with "
                "TruncatedSVD"
            )
        if self.source == "labels" and nodes.y is None:
            raise InputError(f"{name} needs labels: y is missing")
        bound = copy.copy(self)
        for kind in type(self).__mro__:
            for attribute, member in vars(kind).items():
                if isinstance(member, cached_property):
                    vars(bound).pop(attribute, None)
        bound.n_nodes, bound.n_classes = nodes.n_nodes, nodes.n_classes
        return bound

    # What it draws on, and how it is shown. ---------------------------------------------

    @property
    def needs_features(self) -> bool:
        """Whether it looks at the features of nodes."""
        return self.source == "features"

    @property
    def averages_links(self) -> bool:
        """Whether it averages over links, which then are not to be counted once more."""
        return False

    @property
    def short_name(self) -> str:
        """What it is called beside others."""
        return type(self).__name__

    def __repr__(self) -> str:
        settings = (name for name in self.settings() if hasattr(self, name))
        shown = ", ".join(f"{name}={getattr(self, name)!r}" for name in settings)
        return f"{type(self).__name__}({shown})"

    # Where a fit may start. -------------------------------------------------------------

    @property
    def labels(self) -> NDArray[np.int64] | None:
        """Labels to start from and to name classes by, shape (n,), −1 where unknown; or None."""
        return None

    def points(self) -> NDArray[Any] | csr_array | None:
        """Return features to cluster without labels, shape (n, d), by default ``X``; or None."""
        X = vars(self).get("X")
        return X if X is not None and X.ndim == 2 and X.shape[0] == self.n_nodes else None

    def labels_from(self, models: Array) -> NDArray[np.int64] | None:
        """Return the classes that models of single nodes name, shape (n,); None if they do not."""
        return None

    # The paper's loss. ------------------------------------------------------------------

    @abstractmethod
    def loss(self, theta: Array, lo: int, hi: int) -> Array:
        """Return ``f(z_v; θ_v)`` for the nodes lo…hi, shape (hi − lo,).

        Parameters
        ----------
        theta : ndarray of shape (hi − lo, ...) or (1, ...)
            One model per node, or one for all of them.
        """

    @abstractmethod
    def loss_gradient(self, theta: Array, lo: int, hi: int) -> Array:
        """Return ``∇_θ f(z_v; θ_v)`` for the nodes lo…hi, shape (hi − lo, ...)."""

    @abstractmethod
    def refit(self, W: NDArray[Any]) -> Array:
        """Return the members of the set that minimise ``Σ_v W_vi f(z_v; θ_i)``."""

    def class_loss(self, W: NDArray[Any]) -> ClassLoss:
        """Return ``Σ_v W_vi f(z_v; θ_i)`` as a function of the models.

        Terms whose sums over the nodes can be taken beforehand do so.

        Parameters
        ----------
        W : ndarray of shape (n, any)
            Weights of the nodes in each class, not negative.
        """
        return NodewiseLoss(self, W)

    def value(self, W: NDArray[Any], models: Array) -> float:
        """Return ``Σ_v f(z_v; Σ_i W_vi θ_i)``."""

        def part(lo: int, hi: int) -> float:
            return float(self.loss(_mix(W[lo:hi], models), lo, hi).sum())

        return float(np.sum(threads.map_rows(part, self.n_nodes)))

    def gradient_W(self, W: NDArray[Any], models: Array) -> Array:
        """Return the derivative of the value with respect to W, shape (n, K)."""

        def part(lo: int, hi: int) -> Array:
            gradient = self.loss_gradient(_mix(W[lo:hi], models), lo, hi)
            return gradient.reshape(hi - lo, -1) @ models.reshape(self.n_classes, -1).T

        return np.concatenate(threads.map_rows(part, self.n_nodes))

    def value_and_gradient_W(self, W: NDArray[Any], models: Array) -> tuple[float, Array]:
        """Return `value` and `gradient_W`; override it where they share work."""
        return self.value(W, models), self.gradient_W(W, models)

    def gradient_models(self, W: NDArray[Any], models: Array) -> Array:
        """Return the derivative of the value with respect to the models, (K, ...)."""

        def part(lo: int, hi: int) -> Array:
            gradient = self.loss_gradient(_mix(W[lo:hi], models), lo, hi)
            return np.asarray(W[lo:hi].T @ gradient.reshape(hi - lo, -1), dtype=np.float64)

        return threads.sum_rows(part, self.n_nodes).reshape(models.shape)

    def vertex_costs(self, models: Array, lo: int, hi: int) -> Array:
        """Return ``f(z_v; θ_i)`` for the nodes lo…hi and each class, shape (hi − lo, K)."""
        return np.stack([self.loss(model[None], lo, hi) for model in models], axis=1)

    # The likelihood. --------------------------------------------------------------------

    @abstractmethod
    def estimate(self, W: NDArray[Any]) -> Array:
        """Return the class models that are most probable given W, shape (K, ...)."""

    @abstractmethod
    def cost(self, models: Array, lo: int, hi: int) -> Array:
        """Return the −log-likelihood of the nodes lo…hi in each class, (hi − lo, K)."""

    def cost_into(self, out: Array, models: Array, lo: int, hi: int) -> None:
        """Write `cost` to an array that is there already."""
        out[:] = checked_costs(self, self.cost(models, lo, hi), lo, hi, "cost")

    def attribute(self, models: Array, scores: Array, lo: int, hi: int) -> dict[str, Array]:
        """Return the scores of the nodes lo…hi by the source they come from."""
        return {self.source: scores}

    def jointly(self) -> tuple[Self, Affinity] | str | None:
        """Return what it says of all nodes together, where that is more than costs of each.

        Certificates are about that: a copy that has the same class models and costs nodes what
        they cost beside their links, and the affinity of these. Or the reason why a term that
        stands for the links has nothing of the kind. None, the default: costs are all it says.
        """
        return None

    def penalty(self, models: Array) -> float:
        """Return the −log-prior under which `estimate` is most probable (0: flat)."""
        return 0.0

    # How many classes there are. --------------------------------------------------------

    @property
    def prior_nodes(self) -> float:
        """How many nodes the prior is worth."""
        return 1.0

    def n_parameters(self, models: Array) -> float:
        """Return how many numbers describe one class."""
        return float(models[0].size)

    def separate(self) -> Term:
        """Return a term like this one under which no class model depends on other classes."""
        return self

    def description_lengths(self, models: Array, sizes: Array) -> Array:
        """Return how long it takes to say what each class is like, shape (K,), by Laplace's method.

        That is ``penalty(θ) − penalty(θ₀)``, with θ₀ the model of an empty class, and half the
        log of how much sharper the nodes of the class determine θ than the prior did.

        Parameters
        ----------
        models : ndarray of shape (K, ...)
            The models of the classes.
        sizes : ndarray of shape (K,)
            How many nodes each has.
        """
        K = len(models)
        empty = self.estimate(np.zeros((self.n_nodes, K)))
        drawn = np.array([self.penalty(models[i : i + 1]) for i in range(K)])
        drawn -= self.penalty(empty) / K
        return np.asarray(drawn + 0.5 * self._log_sharpening(models, empty, sizes))

    def _log_sharpening(self, models: Array, empty: Array, sizes: Array) -> Array:
        nodes = sizes / max(self.prior_nodes, 1e-12)
        return np.asarray(self.n_parameters(models) * np.log1p(nodes))

    # New nodes. -------------------------------------------------------------------------

    def for_new_nodes(self, models: Array, calibrated: bool) -> NewNodeCosts | None:
        """Return what new nodes are judged by; None if the term has nothing to say of them.

        By default the term is bound to them, and they cost what `cost` or `vertex_costs` says.

        Parameters
        ----------
        models : ndarray of shape (K, ...)
            Fitted class models.
        calibrated : bool
            Whether they are of the likelihood, or of the paper's loss.
        """
        return BoundCosts(self, models, calibrated) if self.source == "features" else None

    # Saved models. ----------------------------------------------------------------------

    #: shapes that class models may have, as in :class:`nodeproof.storage.schema.Expected`, with
    #: K classes and m features
    models_shape: ClassVar[str] = "K | K * | K * * | K * * *"

    #: settings and arrays that `for_new_nodes` wants to be saved, with what they must be; settings
    #: whose check accepts None may be missing, and ``{0}`` in a shape is the term's position; if
    #: arrays depend on settings, `kept_layout` says which there are
    kept_settings: ClassVar[Mapping[str, Check]] = {}
    kept_arrays: ClassVar[Mapping[str, Expected]] = {}
    #: what they are called in a file
    kept_as: ClassVar[str] = "term"

    @classmethod
    def settings(cls) -> Mapping[str, Check]:
        """Return the settings that make up a term, with what a saved file may say of each.

        By default the arguments of the constructor, any plain values, each stored in an attribute
        of its name.
        """
        return dict.fromkeys(inspect.signature(cls).parameters, plain)

    @classmethod
    def kept_layout(cls, settings: Mapping[str, Any]) -> Mapping[str, Expected]:
        """Return which arrays go with settings that `kept_settings` has checked."""
        return cls.kept_arrays

    def check_models(self, models: Array) -> None:  # noqa: B027
        """Raise a ValueError if models of a saved file, all finite, cannot be class models."""

    def restored(
        self,
        models: Array,
        calibrated: bool,
        settings: Mapping[str, Any],
        arrays: Mapping[str, NDArray[Any]],
    ) -> NewNodeCosts | None:
        """Return what `for_new_nodes` has returned, from what of it was saved.

        Parameters
        ----------
        settings, arrays : mapping
            As `NewNodeCosts.to_parts` returned them, checked against `kept_settings` and
            `kept_layout`.
        """
        return self.for_new_nodes(models, calibrated)


@dataclass(frozen=True)
class BoundCosts(NewNodeCosts):
    """What new nodes cost by a term that is bound to them."""

    term: Term
    models: Array
    calibrated: bool

    def costs(self, new: NewNodes) -> Array:
        """Return what new nodes cost in each class, shape (n_new, K)."""
        nodes = NodeData(len(self.models), new.X, feature_names=new.feature_names)
        bound = self.term.bind(nodes)
        charge = bound.cost if self.calibrated else bound.vertex_costs
        return charge(self.models, 0, bound.n_nodes)


def _mix(W: NDArray[Any], models: Array) -> Array:
    """Return ``Σ_i W_vi θ_i`` for each row, shape (rows, ...)."""
    mixed = W.astype(np.float64, copy=False) @ models.reshape(len(models), -1)
    return np.asarray(mixed.reshape(len(W), *models.shape[1:]))
