"""Certificates: what they claim, and how others can check it."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from nodeproof import __version__
from nodeproof.certificate.audit import Check
from nodeproof.certificate.labelling.display import certificate_card, draw_progress
from nodeproof.certificate.labelling.instance import Instance
from nodeproof.certificate.labelling.proof import Step, proof_arrays
from nodeproof.certificate.labelling.verify import check_certificate, verify_certificate
from nodeproof.certificate.status import NO_PROOF, gap_of, nats, percent, status_of
from nodeproof.errors import InputError
from nodeproof.runtime.caching import cached_property
from nodeproof.storage.atomic import atomic_path
from nodeproof.storage.npz import Archive, open_npz, write_npz
from nodeproof.storage.schema import parse_object

if TYPE_CHECKING:
    from nodeproof.estimator import NodeClassifier
    from nodeproof.fitted import Fitted

__all__ = ["Certificate"]

FORMAT, FORMAT_VERSION = "nodeproof-certificate", 2


@dataclass(frozen=True)
class Certificate:
    """How good a labelling is among all labellings, for the given models; with the proof.

    Attributes
    ----------
    objective : float
        Of `labels`, rounded up; costs count from each node's cheapest class.
    lower_bound : float
        No labelling has a lower objective.
    tolerance : float
        Largest difference that counts as certified.
    exact : bool
        Whether `labels` are known to be optimal without any tolerance.
    unique : bool
        Whether they are known to be the only optimum, up to names where `renaming` is true.
    labels : ndarray of shape (n,)
        The labelling of least objective that was found, as class numbers.
    possible : ndarray of bool, shape (n, K)
        False where no optimal labelling gives the node that class.
    renaming : bool
        Whether what is said of single nodes holds up to the names of the classes only.
    anchors : ndarray of int
        The nodes that give classes their names, where a step of the proof leaves these free.
    instance : Instance or None
        The labelling problem; None where there is none to certify.
    steps : tuple of Step
        The proof, which `verify` checks.
    reason : str
        Why there is no certificate, where it is not applicable.
    method : str
        How the bound was found: "enumeration", or the kinds of its dual variables.
    seconds : float
        Time taken; not a number in certificates from files.
    moved : ndarray of int
        Nodes where `labels` differ from the labelling that was given; none in those from files.
    interrupted : bool
        Whether the search was cut short by Ctrl-C; the bound holds all the same.
    history : list of (float, float, float)
        Seconds, objective and lower bound as they improved; empty in those from files.
    loaded : bool
        Whether it was read from a file, of which `instance` is a part: nothing but a comparison
        with your own model tells that these are your links and costs.
    """

    objective: float
    lower_bound: float
    tolerance: float
    exact: bool
    unique: bool
    labels: NDArray[np.int64]
    possible: NDArray[np.bool_]
    renaming: bool = False
    anchors: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    instance: Instance | None = field(default=None, repr=False)
    steps: tuple[Step, ...] = field(default=(), repr=False)
    reason: str = ""
    method: str = ""
    seconds: float = math.nan
    moved: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    interrupted: bool = False
    history: list[tuple[float, float, float]] = field(default_factory=list)
    loaded: bool = False

    @cached_property
    def status(self) -> str:
        """One of "certified", "gap ≤ x % (y nats)", "no proof" or "not applicable".

        A tolerance that is not the default is named: "certified (tolerance t)"; a gap of more
        than 10 % is no proof.
        """
        if self.instance is None:
            return "not applicable"
        return status_of(self.objective, self.lower_bound, self.tolerance, self.special_tolerance)

    @property
    def gap(self) -> float:
        """The difference between objective and bound, relative to the size of the objective."""
        if self.instance is None:
            return math.inf
        return gap_of(self.objective, self.lower_bound, self.tolerance)

    @property
    def gap_nats(self) -> float:
        """The difference between objective and bound."""
        return max(0.0, self.objective - self.lower_bound)

    @property
    def certified(self) -> bool:
        """Whether the labelling is optimal, up to the tolerance."""
        return self.status.startswith("certified")

    @cached_property
    def certified_nodes(self) -> NDArray[np.bool_]:
        """Nodes that keep their class in every optimal labelling, shape (n,)."""
        if self.instance is None:
            return np.zeros(len(self.labels), dtype=bool)
        return np.asarray(self.possible.sum(axis=1) == 1)

    @cached_property
    def special_tolerance(self) -> float | None:
        """The tolerance where it is not the default, else None."""
        if self.instance is None:
            return None
        default = self.instance.audited.tolerance(self.labels)
        return None if math.isclose(self.tolerance, default, rel_tol=1e-9) else self.tolerance

    def __repr__(self) -> str:
        shown = {
            "status": self.status,
            "objective": round(self.objective, 6),
            "lower_bound": round(self.lower_bound, 6),
            "certified_nodes": f"{int(self.certified_nodes.sum())} of {len(self.labels)}",
            "method": self.method,
            "seconds": round(self.seconds, 2),
        }
        return f"Certificate({', '.join(f'{key}={value!r}' for key, value in shown.items())})"

    def _repr_html_(self) -> str:
        return certificate_card(self)

    def explain(self) -> str:
        """Return a sentence or two that say what it means."""
        if self.instance is None:
            return f"There is no certificate: {self.reason}."
        n = len(self.labels)
        sure = int(self.certified_nodes.sum())
        names = ", up to the names of the classes" if self.renaming else ""
        if self.certified:
            best = "optimal" if self.exact or self.unique else "as good as any"
            but = ""
            if (tolerance := self.special_tolerance) is not None:
                needed = ", which was not needed" if self.exact else ""
                but = f" (up to a tolerance of {tolerance:.3g}{needed})"
            only = f" It is the only one{names}." if self.unique else ""
            return (
                f"This labelling is proven to be {best}: for these models no labelling of the "
                f"{n:,} nodes has a lower objective{but}.{only}"
            )
        if self.gap <= NO_PROOF:
            start = (
                "This labelling may not be optimal, but it cannot be improved by more than "
                f"{nats(self.gap_nats)} ({percent(self.gap)} of its objective)"
            )
        else:
            start = "There is no proof of how good this labelling is as a whole"
        return (
            f"{start}; {sure:,} of {n:,} nodes are proven to keep their class in every optimal "
            f"labelling{names}."
        )

    def summary(self) -> dict[str, Any]:
        """Return its main figures, ready for JSON."""
        numbers = {
            "objective": self.objective,
            "lower_bound": self.lower_bound,
            "gap": self.gap,
            "gap_nats": self.gap_nats,
            "tolerance": self.tolerance,
            "seconds": round(self.seconds, 3),
        }
        return {
            "status": self.status,
            "explanation": self.explain(),
            **{name: value if math.isfinite(value) else None for name, value in numbers.items()},
            "exact": self.exact,
            "unique": self.unique,
            "method": self.method,
            "nodes": len(self.labels),
            "certified_nodes": int(self.certified_nodes.sum()),
            "excluded_classes": int((~self.possible).sum()),
            "up_to_names": self.renaming,
            "moved": len(self.moved),
            "interrupted": self.interrupted,
        }

    def verify(
        self,
        model: NodeClassifier | Fitted | Instance | None = None,
        *,
        tolerance: float | None = None,
    ) -> Check:
        """Check it again from the stored numbers, against a model of yours.

        Done by :mod:`nodeproof.certificate.audit`, which uses nothing that searched for the proof.
        Confirmed is what it says of its labelling: objective, bound, tolerance, possible classes,
        `exact`, `unique` and `renaming`, and so all that follows from these. How it was found is
        not part of that, and files do not hold it.

        Parameters
        ----------
        model : NodeClassifier or Instance, optional
            What it is to be about: a fitted model, a loaded one with its links and costs, or a
            labelling problem. Needed for a certificate from a file; ``proof.instance`` asks only
            whether it holds for the links and costs in the file, wherever they are from.
        tolerance : float, optional
            The largest difference between objective and bound that you accept as none; by
            default that of :func:`nodeproof.certify`. What is certified with more is refused.

        Returns
        -------
        Check
            True if the claim is confirmed; it says why not, where it is refused.
        """
        return verify_certificate(self, model, tolerance)

    def claim(self) -> dict[str, Any]:
        """Return what it claims, beside `labels` and `possible`."""
        return {
            "objective": self.objective,
            "lower_bound": self.lower_bound,
            "tolerance": self.tolerance,
            "exact": self.exact,
            "unique": self.unique,
            "renaming": self.renaming,
        }

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Return the labelling problem and the proof as named arrays, as the auditor reads them."""
        if self.instance is None:
            return {"labels": self.labels, "possible": self.possible}
        arrays = proof_arrays(self.instance, self.labels, self.anchors, self.steps)
        return arrays | {"possible": self.possible}

    def save(self, path: str | PathLike[str]) -> None:
        """Write it to one file, with all that `verify` needs; no pickle."""
        meta = {"format": FORMAT, "version": FORMAT_VERSION, "nodeproof": __version__}
        meta |= {"reason": self.reason, **self.claim()}
        header = np.frombuffer(json.dumps(meta).encode(), dtype=np.uint8)
        with atomic_path(path) as temporary, Path(temporary).open("wb") as file:
            write_npz(file, {"meta": header, **self.to_arrays()}, packed=True)

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Certificate:
        """Read a certificate that `save` has written. Trust it only if it verifies."""
        if not Path(path).is_file():
            raise InputError(f"there is no certificate {path}")
        with open_npz(path) as archive:
            meta = _read_meta(archive)
            check_certificate(archive.headers())
            arrays = {name: archive[name] for name in archive if name != "meta"}
            return cls._rebuild(meta, arrays)

    @classmethod
    def _rebuild(cls, meta: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> Certificate:
        instance = Instance.from_arrays(arrays) if "costs" in arrays else None
        plain: dict[str, Any] = {name: meta.get(name) for name in _PLAIN}
        for name, types in _PLAIN.items():
            if type(plain[name]) not in types:
                raise ValueError(f"{name} is {plain[name]!r:.60}")
            if float in types:
                plain[name] = _as_float(plain[name])
        z = arrays["labels"].astype(np.int64, copy=False)
        K = arrays["possible"].shape[1]
        if not ((z >= 0) & (z < K)).all():
            raise ValueError("a label names no class")
        steps = tuple(_steps(arrays))
        anchors = arrays.get("anchors", z[:0]).astype(np.int64, copy=False)
        kinds = dict.fromkeys("potts" if "y" in step.to_arrays() else "spectral" for step in steps)
        return cls(
            **plain, labels=z, possible=arrays["possible"], anchors=anchors, instance=instance,
            steps=steps, method=", ".join(kinds), loaded=True,
        )  # fmt: skip

    def plot(self, axes: Any = None) -> Any:
        """Draw how objective and bound came closer to each other, on matplotlib axes."""
        from nodeproof.runtime.axes import axes_or_new

        axes = axes_or_new(axes, (6, 2.6))
        draw_progress(self, axes)
        return axes


def _steps(arrays: dict[str, NDArray[Any]]) -> list[Step]:
    found: list[Step] = []
    while f"step{len(found)}_open" in arrays:
        prefix = f"step{len(found)}_"
        own = {
            name.removeprefix(prefix): x for name, x in arrays.items() if name.startswith(prefix)
        }
        found.append(Step.from_arrays(own))
    return found


def _read_meta(archive: Archive) -> dict[str, Any]:
    path = archive.path
    if "meta" not in archive or archive.header("meta").dtype.kind != "u":
        raise InputError(f"{path} is not a nodeproof certificate: it has no header")
    if archive.header("meta").nbytes > _LARGEST_HEADER:
        raise ValueError("its header is too long")
    meta = parse_object(archive["meta"].tobytes(), _LARGEST_HEADER)
    if meta.get("format") != FORMAT:
        raise InputError(f"{path} is not a nodeproof certificate")
    version = meta.get("version")
    if type(version) is not int or version != FORMAT_VERSION:
        raise InputError(
            f"{path} is a certificate of format {version!r:.20}; nodeproof {__version__} reads "
            f"format {FORMAT_VERSION}"
        )
    return meta


def _as_float(number: float) -> float:
    """Return a number of the header; whole ones may be larger than any float."""
    try:
        return float(number)
    except OverflowError:
        return math.inf if number > 0 else -math.inf


_NUMBER = (float, int)
_PLAIN = {
    "objective": _NUMBER, "lower_bound": _NUMBER, "tolerance": _NUMBER, "exact": (bool,),
    "unique": (bool,), "renaming": (bool,), "reason": (str,),
}  # fmt: skip
# Some numbers and words.
_LARGEST_HEADER = 1 << 16
