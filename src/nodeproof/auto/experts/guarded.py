"""Experts of users: what they must not return, or raise, is one error that names the method."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from nodeproof.auto.experts.base import Array, Candidate, Changed, Expert, Learnt, NewNodes, Rows
from nodeproof.auto.held_out import HeldOut
from nodeproof.errors import InputError, one_line
from nodeproof.storage.schema import as_plain
from nodeproof.terms import NodeData

__all__ = ["Guarded", "GuardedLearnt", "guard", "restore"]


def guard(expert: Expert) -> Expert:
    """Return an expert whose methods are checked, unless it is one of ours."""
    return expert if type(expert).__module__.startswith("nodeproof.") else Guarded(expert)


def restore(
    expert: type[Expert],
    source: str,
    settings: Mapping[str, Any],
    arrays: Mapping[str, NDArray[Any]],
) -> Learnt | None:
    """Return what an expert has learnt from its saved parts; its methods are checked, too."""
    if expert.__module__.startswith("nodeproof."):
        return expert.restored(settings, arrays)
    try:
        learnt = expert.restored(settings, arrays)
    except Exception as error:
        raise ValueError(
            f"the expert {expert.name!r} failed in restored: {one_line(error)}"
        ) from None
    if learnt is None:
        return None
    return GuardedLearnt(_learnt(learnt, expert.name, "restored"), expert.name, source)


class Guarded(Expert):
    """An expert of a user.

    Parameters
    ----------
    expert : Expert
        What is asked. Its own errors become one that names it and the method.
    """

    def __init__(self, expert: Expert) -> None:
        self.expert = expert
        for attribute in ("name", "source", "costly", "balanced"):
            vars(self)[attribute] = getattr(expert, attribute)

    def _call(self, method: str, *given: Any) -> Any:
        return _call(getattr(self.expert, method), self.name, method, *given)

    def why_not(self, nodes: NodeData) -> str | None:
        """Return why the expert does not apply to the data; None if it does."""
        found = self._call("why_not", nodes)
        return None if found is None else str(found)

    def bind(self, nodes: NodeData) -> Self:
        """Return a copy that holds the data."""
        own = self._call("bind", nodes)
        if not isinstance(own, Expert) or own is self.expert:
            raise InputError(
                f"bind of the expert {self.name!r} must return a bound copy: begin with "
                "bound = super().bind(nodes)"
            )
        bound = super().bind(nodes)
        bound.expert = own
        vars(bound)["source"] = own.source
        return bound

    def settings(self) -> Sequence[Any]:
        """Return candidate settings."""
        found = self._call("settings")
        if not isinstance(found, Sequence) or len(found) == 0:
            raise InputError(
                f"settings of the expert {self.name!r} must return a list of at least one, got "
                f"{found!r}"
            )
        return found

    def describe(self, setting: Any) -> str:
        """Return a setting in words."""
        return str(self._call("describe", setting))

    def learn(self, y: NDArray[np.int64], setting: Any) -> Learnt:
        """Return what is learnt from the labels seen."""
        learnt = _learnt(self._call("learn", y, setting), self.name, "learn")
        found = GuardedLearnt(learnt, self.name, self.source)
        logs = getattr(learnt, "log_proba", None)
        _check_logs(logs, (len(y), self.nodes.n_classes), self.name, "learn: log_proba")
        found.log_proba = np.asarray(logs, dtype=np.float32)
        return found

    def held_out(self, held: HeldOut, setting: Any, than: Array | None = None) -> Array | None:
        """Return log-probabilities of held-out nodes, each without its label seen, (h, K)."""
        if type(self.expert).held_out is Expert.held_out:
            return super().held_out(held, setting, than)
        logs = self._call("held_out", held, setting, than)
        if logs is None:
            return None
        shape = len(held.nodes), self.nodes.n_classes
        return np.asarray(_check_logs(logs, shape, self.name, "held_out"), dtype=np.float64)

    def candidates(self, held: HeldOut, than: Array | None = None) -> list[Candidate]:
        """Return what was tried on held-out labels."""
        if type(self.expert).candidates is Expert.candidates:
            return super().candidates(held, than)
        found = self._call("candidates", held, than)
        if not (isinstance(found, list) and all(isinstance(item, Candidate) for item in found)):
            raise InputError(f"candidates of the expert {self.name!r} must return Candidates")
        for candidate in found:
            shape = len(held.nodes), self.nodes.n_classes
            _check_logs(candidate.logs, shape, self.name, "candidates")
        return found


class GuardedLearnt(Learnt):
    """What an expert of a user has learnt."""

    def __init__(self, learnt: Learnt, name: str, source: str) -> None:
        self.learnt, self.name, self.source = learnt, name, source

    @property
    def needs_features(self) -> bool:
        """Whether `judge` looks at the features of new nodes: it says so, or draws on features."""
        return self.source == "features" or bool(self.learnt.needs_features)

    def attribute(self, scores: Array, lo: int, hi: int) -> dict[str, Array]:
        """Return the scores of the nodes lo…hi by what they come from."""
        found: dict[str, Array] = _call(
            self.learnt.attribute, self.name, "attribute", scores, lo, hi
        )
        return found

    def reordered(self, position: NDArray[np.int64]) -> Self:
        """Return the same for reordered nodes."""
        own = _call(self.learnt.reordered, self.name, "reordered", position)
        found = type(self)(_learnt(own, self.name, "reordered"), self.name, self.source)
        found.log_proba = self.log_proba[position]
        return found

    def judge(self, new: NewNodes) -> Array | None:
        """Return log-probabilities of new nodes, shape (n_new, K); None if it cannot."""
        logs = _call(self.learnt.judge, self.name, "judge", new)
        if logs is None:
            return None
        shape = new.links.shape[0], None
        return np.asarray(_check_logs(logs, shape, self.name, "judge"), dtype=np.float64)

    def updated(self, changed: Changed, log_proba: Rows) -> Learnt:
        """Return the same for the same nodes; what a user's expert keeps of others is not known."""
        if changed.n_new:
            raise InputError(
                f"the expert {self.name!r} is your own, and a model with it cannot take up new "
                "nodes: fit again"
            )
        return super().updated(changed, log_proba)

    def to_parts(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return the settings and arrays that `judge` needs, to save them."""
        kind = type(self.learnt)
        if kind.judge is not Learnt.judge and kind.to_parts is Learnt.to_parts:
            raise InputError(
                f"cannot save the expert {self.name!r}: it judges new nodes, but {kind.__name__} "
                "has no to_parts"
            )

        def parts() -> tuple[dict[str, Any], dict[str, Any]]:
            settings, arrays = self.learnt.to_parts()
            return dict(settings), dict(arrays)

        settings, arrays = _call(parts, self.name, "to_parts")
        if not all(isinstance(array, np.ndarray) for array in arrays.values()):
            raise InputError(f"to_parts of the expert {self.name!r} must return arrays of numpy")
        try:
            return {name: as_plain(value) for name, value in settings.items()}, arrays
        except TypeError as error:
            raise InputError(f"to_parts of the expert {self.name!r}: {error}") from None


def _call(method: Callable[..., Any], expert: str, name: str, *given: Any) -> Any:
    try:
        return method(*given)
    except InputError:
        raise
    except Exception as error:
        raise InputError(f"the expert {expert!r} failed in {name}: {one_line(error)}") from error


def _learnt(found: Any, expert: str, method: str) -> Learnt:
    if not isinstance(found, Learnt):
        raise InputError(
            f"{method} of the expert {expert!r} must return a Learnt, got {type(found).__name__}"
        )
    return found


def _check_logs(logs: Any, shape: tuple[int, int | None], expert: str, method: str) -> Rows:
    n, K = shape
    fits = (
        isinstance(logs, np.ndarray)
        and logs.dtype.kind == "f"
        and logs.ndim == 2
        and len(logs) == n
        and K in (None, logs.shape[1])
    )
    if not fits:
        kind = f"shape {logs.shape}" if isinstance(logs, np.ndarray) else type(logs).__name__
        raise InputError(
            f"{method} of the expert {expert!r} must return log-probabilities of shape "
            f"({n}, {'K' if K is None else K}), got {kind}"
        )
    if not np.isfinite(logs).all():
        raise InputError(
            f"{method} of the expert {expert!r} returned log-probabilities that are not finite: "
            "clip probabilities from below, at 1e-6 say"
        )
    return logs
