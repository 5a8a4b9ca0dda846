"""The labels after all actions of a journal: who has looked at which node, and what it is."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nodeproof.app.journal import Action, Journal
from nodeproof.errors import InputError, count_of
from nodeproof.fitted import Fitted

__all__ = ["LabelState"]


class LabelState:
    """The labels of all nodes, kept in step with a journal.

    Parameters
    ----------
    fitted : Fitted
        The model, with the labels to begin with.
    journal : Journal
        What was done to them.

    Attributes
    ----------
    codes : ndarray of shape (n,)
        The label of each node as a class number, −1 where there is none.
    looked : ndarray of shape (n,)
        How many actions on each node count.
    unknown : int
        Nodes and classes in the journal that the model does not have; they are ignored.
    """

    def __init__(self, fitted: Fitted, journal: Journal) -> None:
        n = fitted.n_nodes
        self.journal = journal
        self.names: list[Any] = fitted.names.tolist()
        self.classes: list[Any] = fitted.classes.tolist()
        self.codes = np.full(n, -1) if fitted.given is None else fitted.given.astype(np.int64)
        self.looked = np.zeros(n, dtype=np.int64)
        self.unknown = 0
        self._rows = {name: row for row, name in enumerate(self.names)}
        self._numbers = {name: code for code, name in enumerate(self.classes)}
        self._applied = 0
        # Actions on each node that count, oldest first.
        self._past: dict[int, list[int]] = {}
        self._undone: set[int] = set()
        self.catch_up()

    @property
    def version(self) -> int:
        """Number of actions so far."""
        return self._applied

    @property
    def reviewed(self) -> NDArray[np.bool_]:
        """The nodes that somebody has looked at, shape (n,)."""
        return self.looked > 0

    def catch_up(self) -> bool:
        """Take up what other processes have written; tell whether there was anything."""
        self.journal.read()
        return self._apply_all()

    def label(self, rows: list[int], codes: list[int], kind: str, window: str) -> None:
        """Write labels for some nodes, −1 to remove one, and take them up.

        Parameters
        ----------
        rows, codes : list of int
            Positions of the nodes and class numbers.
        kind, window : str
            As in :class:`nodeproof.app.journal.Action`.
        """

        def make() -> Action:
            self._apply_all()
            return Action(
                _now(),
                window,
                kind,
                tuple(self.names[row] for row in rows),
                tuple(self._name(code) for code in codes),
                tuple(self._name(int(self.codes[row])) for row in rows),
            )

        self.journal.append(make)
        self._apply_all()

    def undo(self, window: str) -> list[int]:
        """Undo the last action of a window; return the positions of its nodes, [] if none is left.

        Nodes that another window has labelled since then keep that label.
        """

        def make() -> Action | None:
            self._apply_all()
            last = self._last(window)
            if last is None:
                return None
            action = self.journal.actions[last]
            now = tuple(
                before if self._is_last(name, last) else self._current(name)
                for name, before in zip(action.nodes, action.before, strict=True)
            )
            current = tuple(self._current(name) for name in action.nodes)
            return Action(_now(), window, "undo", action.nodes, now, current, last)

        action = self.journal.append(make)
        self._apply_all()
        if action is None:
            return []
        return [row for name in action.nodes if (row := self._rows.get(name)) is not None]

    def counts(self, window: str = "") -> dict[str, int]:
        """Return numbers for the page: labels, nodes looked at, and actions that can be undone."""
        own = (a.window == window for a in self.journal.actions)
        kept = (k not in self._undone for k in range(self._applied))
        undoable = sum(
            mine and counts and action.kind != "undo"
            for mine, counts, action in zip(own, kept, self.journal.actions, strict=True)
        )
        return {
            "labels": int((self.codes >= 0).sum()),
            "reviewed": int(self.reviewed.sum()),
            "undoable": undoable,
        }

    def changed_from(self, given: NDArray[np.int64]) -> dict[Any, Any]:
        """Return the labels that differ from these, by name; None for one that was removed."""
        rows = np.flatnonzero(self.codes != given)
        return {self.names[row]: self._name(int(self.codes[row])) for row in rows.tolist()}

    def columns(self) -> dict[str, NDArray[Any]]:
        """Return all labels as columns: node, label, and whether somebody has looked at it."""
        rows = np.flatnonzero((self.codes >= 0) | self.reviewed)
        texts = [*map(str, self.classes), ""]
        return {
            "node": np.array([self.names[row] for row in rows.tolist()]),
            "label": np.array([texts[code] for code in self.codes[rows].tolist()], dtype=str),
            "reviewed": self.reviewed[rows],
        }

    def check(self, rows: Any, codes: Any) -> tuple[list[int], list[int]]:
        """Return positions and class numbers from a request, or raise an error."""
        n, K = len(self.names), len(self.classes)
        if not (isinstance(rows, list) and isinstance(codes, list) and rows):
            raise InputError("nodes and labels must be lists that are not empty")
        if len(rows) != len(codes) or len(set(map(str, rows))) != len(rows):
            raise InputError("every node must be there once, with one label")
        if not all(type(row) is int and 0 <= row < n for row in rows):
            raise InputError(f"nodes must be positions from 0 to {n - 1}")
        if not all(type(code) is int and -1 <= code < K for code in codes):
            raise InputError(f"labels must be class numbers from 0 to {K - 1}, or −1")
        left = self.codes.copy()
        left[rows] = codes
        if not (left >= 0).any():
            raise InputError("at least one label must be left")
        return rows, codes

    def notes(self) -> list[str]:
        """Return what is odd about the journal."""
        if not self.unknown:
            return []
        what = count_of(self.unknown, "label")
        return [f"{what} in {self.journal.path.name} for nodes or classes that the model lacks"]

    def _name(self, code: int) -> Any:
        return None if code < 0 else self.classes[code]

    def _current(self, name: Any) -> Any:
        row = self._rows.get(name)
        return None if row is None else self._name(int(self.codes[row]))

    def _last(self, window: str) -> int | None:
        for number in range(self._applied - 1, -1, -1):
            action = self.journal.actions[number]
            if action.window == window and action.kind != "undo" and number not in self._undone:
                return number
        return None

    def _is_last(self, name: Any, number: int) -> bool:
        row = self._rows.get(name)
        return row is not None and self._past.get(row, [])[-1:] == [number]

    def _apply_all(self) -> bool:
        new = self._applied < len(self.journal.actions)
        while self._applied < len(self.journal.actions):
            self._apply(self._applied, self.journal.actions[self._applied])
            self._applied += 1
        return new

    def _apply(self, number: int, action: Action) -> None:
        if action.undoes is not None:
            self._undone.add(action.undoes)
        for name, label in zip(action.nodes, action.labels, strict=True):
            row = self._rows.get(name)
            code = -1 if label is None else self._numbers.get(label)
            if row is None or code is None:
                self.unknown += 1
                continue
            past = self._past.setdefault(row, [])
            if action.undoes is None:
                past.append(number)
            elif action.undoes in past:
                past.remove(action.undoes)
            self.codes[row] = code
            self.looked[row] = len(past)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
