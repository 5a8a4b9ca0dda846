"""What a certificate says, and how others can check it."""

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
from nodeproof.certificate.labelling.audit import Check
from nodeproof.certificate.labelling.bound import FAILURE
from nodeproof.certificate.labelling.display import certificate_card, draw_spectrum
from nodeproof.certificate.labelling.dual import Dual, Factors
from nodeproof.certificate.labelling.instance import Instance
from nodeproof.certificate.labelling.nodes import Step
from nodeproof.certificate.labelling.verify import (
    check_certificate,
    percent,
    special_tolerance,
    verify_certificate,
)
from nodeproof.errors import InputError
from nodeproof.storage.atomic import atomic_path
from nodeproof.storage.npz import Archive, open_npz, write_npz
from nodeproof.storage.schema import parse_object

if TYPE_CHECKING:
    from nodeproof.estimator import NodeClassifier
    from nodeproof.fitted import Fitted

__all__ = ["Certificate"]

FORMAT, FORMAT_VERSION = "nodeproof-certificate", 1


@dataclass(frozen=True)
class Certificate:
    """How good a labelling is, for the models at hand, among all labellings; with the proof.

    Attributes
    ----------
    status : str
        "certified", "certified (probability ≥ 1 − δ)", "gap ≤ x %", "not certified" or
        "not applicable". A tolerance that is not the default is named: "certified (tolerance t)".
    objective : float
        Of `labels`, rounded up; costs count from each node's cheapest class.
    lower_bound : float
        No labelling has a lower objective.
    gap : float
        Their difference, relative to the size of the objective.
    tolerance : float
        Certified is what has a difference of at most this.
    exact : bool
        Whether `labels` are known to be the best without any tolerance.
    unique : bool
        Whether they are known to be the only best, up to names where `renaming` is true.
    nullity : int
        How many directions the dual variables leave free, at most in one class: 1 where the
        labelling is alone, as many as classes where their names mean nothing; more may mean ties.
    method : str
        What found the dual variables: "F", "G", "blocks" or "ascent".
    seconds : float
        Time taken.
    failure : float
        Probability that the bound is wrong, over seeds: 0 for up to some thousand nodes.
    labels : ndarray of shape (n,)
        The labelling, as class numbers: that of least objective that was found.
    moved : ndarray of int
        Nodes where it differs from the labelling that was given.
    certified_nodes : ndarray of bool, shape (n,)
        Nodes that keep their class in every optimal labelling.
    renaming : bool
        Whether that holds up to the names of the classes only.
    eigenvalues : ndarray
        The low end of the spectrum, beyond what is set apart, of the worst class.
    reason : str
        Why there is no certificate, where it is not applicable.
    interrupted : bool
        Whether the search was cut short by Ctrl-C; the bound holds all the same.
    history : list of (float, float, float)
        Seconds, objective and lower bound as they got better.
    instance, dual, node_dual
        The labelling problem, the dual variables that prove the bound, and those that prove
        single nodes if they are others: what `verify` checks.
    dual_bound : float
        What `dual` proves alone; `lower_bound` may be better by further steps.
    steps : tuple of Step
        Further steps of the proof, each on what was left when the sure nodes were fixed.
    loaded : bool
        Whether it was read from a file, of which `instance` is a part: nothing but a comparison
        with your own model tells that these are your links and costs.
    """

    status: str
    objective: float
    lower_bound: float
    gap: float
    tolerance: float
    exact: bool
    unique: bool
    nullity: int
    method: str
    seconds: float
    failure: float
    labels: NDArray[np.int64]
    moved: NDArray[np.int64]
    certified_nodes: NDArray[np.bool_]
    renaming: bool
    eigenvalues: NDArray[np.float64]
    reason: str = ""
    interrupted: bool = False
    history: list[tuple[float, float, float]] = field(default_factory=list)
    instance: Instance | None = field(default=None, repr=False)
    dual: Dual | None = field(default=None, repr=False)
    node_dual: Dual | None = field(default=None, repr=False)
    dual_bound: float = -math.inf
    steps: tuple[Step, ...] = field(default=(), repr=False)
    loaded: bool = False

    @property
    def certified(self) -> bool:
        """Whether the labelling is the best, up to the tolerance."""
        return self.status.startswith("certified")

    @property
    def special_tolerance(self) -> float | None:
        """The tolerance where it is not the default, else None."""
        if self.instance is None:
            return None
        return special_tolerance(self.tolerance, self.instance, self.labels)

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
        """Say in a sentence or two what it means."""
        if self.status == "not applicable":
            return f"There is no certificate: {self.reason}."
        n = len(self.labels)
        sure = int(self.certified_nodes.sum())
        names = ", up to the names of the classes" if self.renaming else ""
        if self.certified:
            best = "the best of all" if self.exact or self.unique else "as good as any"
            limits = []
            if (tolerance := self.special_tolerance) is not None:
                needed = ", which was not needed" if self.exact else ""
                limits.append(f"up to a tolerance of {tolerance:.3g}{needed}")
            if self.failure:
                limits.append(f"wrong with a probability of at most {self.failure:.0e}")
            but = f" ({'; '.join(limits)})" if limits else ""
            only = f" It is the only one{names}." if self.unique else ""
            return (
                f"This labelling is proven to be {best}: for these models no labelling of the "
                f"{n:,} nodes has a lower objective{but}.{only}"
            )
        if self.gap < 1.0:
            start = (
                "This labelling may not be the best, but it cannot be improved by more than "
                f"{percent(self.gap)} of its objective"
            )
        else:
            start = "Little is proven about this labelling as a whole"
        return (
            f"{start}; {sure:,} of {n:,} nodes are proven to keep their class in every best "
            f"labelling{names}."
        )

    def summary(self) -> dict[str, Any]:
        """Return what a person or a program wants to know, ready for JSON."""
        finite = {
            name: value if math.isfinite(value) else None
            for name, value in (
                ("objective", self.objective),
                ("lower_bound", self.lower_bound),
                ("gap", self.gap),
                ("tolerance", self.tolerance),
            )
        }
        return {
            "status": self.status,
            "explanation": self.explain(),
            **finite,
            "exact": self.exact,
            "unique": self.unique,
            "nullity": self.nullity,
            "method": self.method,
            "failure": self.failure,
            "nodes": len(self.labels),
            "certified_nodes": int(self.certified_nodes.sum()),
            "up_to_names": self.renaming,
            "moved": len(self.moved),
            "interrupted": self.interrupted,
            "seconds": round(self.seconds, 3),
        }

    def verify(
        self,
        model: NodeClassifier | Fitted | Instance | None = None,
        *,
        tolerance: float | None = None,
        failure: float = FAILURE,
        random_state: int | None = None,
    ) -> Check:
        """Check it again from the stored numbers, about a model of yours.

        Confirmed is what it says of its labelling: status, objective, bound, gap, single nodes,
        `exact`, `unique`, `tolerance`, `failure` and `moved`. How it was found is not part of
        that: `nullity`, `method`, `seconds`, `eigenvalues`, `history` and `interrupted`.

        Parameters
        ----------
        model : NodeClassifier or Instance, optional
            What it is to be about: a fitted model, a loaded one with its links and costs, or a
            labelling problem. Needed for a certificate from a file; ``proof.instance`` asks only
            whether it holds for the links and costs in the file, wherever they are from.
        tolerance : float, optional
            The largest difference between objective and bound that you accept as none; by
            default that of :func:`nodeproof.certify`. What is certified with more is refused.
        failure : float
            Probability of being wrong that the check is allowed, where it needs random numbers:
            for more than some thousand nodes. A certificate that claims less is refused.
        random_state : int, optional
            Seed of these numbers; by default from the system's entropy, so that nobody can make
            a certificate for them.

        Returns
        -------
        Check
            True if the claim is confirmed; it says why not, where it is refused.
        """
        return verify_certificate(self, model, tolerance, failure, random_state)

    def save(self, path: str | PathLike[str]) -> None:
        """Write it to one file, with all that `verify` needs; no pickle."""
        meta = {
            "format": FORMAT,
            "version": FORMAT_VERSION,
            "nodeproof": __version__,
            **{name: getattr(self, name) for name in _PLAIN},
        }
        arrays: dict[str, NDArray[Any]] = {
            "meta": np.frombuffer(json.dumps(meta).encode(), dtype=np.uint8),
            **{name: getattr(self, name) for name in _ARRAYS},
            "history": np.array(self.history, dtype=np.float64).reshape(-1, 3),
        }
        if self.instance is not None and self.dual is not None:
            arrays |= self.instance.to_arrays() | _dual_arrays(self.dual)
            if self.node_dual is not None:
                arrays |= _dual_arrays(self.node_dual, "node_")
            for k, step in enumerate(self.steps):
                arrays |= {f"step{k}_sure": step.sure, f"step{k}_bound": np.array(step.bound)}
                arrays |= _dual_arrays(step.dual, f"step{k}_")
        with atomic_path(path) as temporary, Path(temporary).open("wb") as file:
            write_npz(file, arrays, packed=True)

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Certificate:
        """Read a certificate that `save` has written. It is what it says only if it verifies."""
        if not Path(path).is_file():
            raise InputError(f"there is no certificate {path}")
        with open_npz(path) as archive:
            meta = _read_meta(archive)
            check_certificate(archive.headers())
            arrays = {name: archive[name] for name in archive if name != "meta"}
            return cls._rebuild(meta, arrays)

    @classmethod
    def _rebuild(cls, meta: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> Certificate:
        instance = dual = None
        if "costs" in arrays:
            instance = Instance.from_arrays(arrays)
            dual = _dual_of(arrays)
        plain: dict[str, Any] = {name: meta.get(name) for name in _PLAIN}
        for name, kinds in _PLAIN.items():
            if type(plain[name]) not in kinds:
                raise ValueError(f"{name} is {plain[name]!r:.60}")
            if float in kinds:
                plain[name] = _as_float(plain[name])
        plain |= {name: arrays[name] for name in _ARRAYS}
        for name in ("labels", "moved"):
            plain[name] = plain[name].astype(np.int64, copy=False)
        z = plain["labels"]
        if instance is not None and not ((z >= 0) & (z < instance.n_classes)).all():
            raise ValueError("a label names no class")
        return cls(
            **plain,
            history=[tuple(row) for row in arrays["history"].tolist()],
            instance=instance,
            dual=dual,
            node_dual=_dual_of(arrays, "node_") if "node_nu" in arrays else None,
            loaded=True,
            steps=tuple(
                Step(
                    arrays[f"step{k}_sure"],
                    _dual_of(arrays, f"step{k}_"),
                    float(arrays[f"step{k}_bound"]),
                )
                for k in range(sum(name.endswith("_sure") for name in arrays))
            ),
        )

    def plot(self, axes: Any = None) -> Any:
        """Draw the low end of the spectrum around zero, on matplotlib axes.

        Left of zero is what is missing from a proof.
        """
        from nodeproof.runtime.axes import axes_or_new

        axes = axes_or_new(axes, (6, 2.6))
        draw_spectrum(self, axes)
        return axes


def _dual_arrays(dual: Dual, prefix: str = "") -> dict[str, NDArray[Any]]:
    """Return dual variables as named arrays."""
    arrays: dict[str, NDArray[Any]] = {"nu": dual.nu, "r": dual.r, "sigma": dual.sigma}
    if isinstance(dual.gamma, Factors):
        arrays |= {"factor_labels": dual.gamma.labels, "a": dual.gamma.a, "g": dual.gamma.g}
    elif dual.gamma is not None:
        arrays["gamma"] = dual.gamma
    return {prefix + name: array for name, array in arrays.items()}


def _dual_of(arrays: dict[str, NDArray[Any]], prefix: str = "") -> Dual:
    """Return the dual variables that `_dual_arrays` has named."""
    gamma: Factors | NDArray[np.float64] | None = arrays.get(f"{prefix}gamma")
    if f"{prefix}a" in arrays:
        named = (arrays[prefix + name] for name in ("factor_labels", "a", "g"))
        gamma = Factors(*named)
    nu, r, sigma = (arrays[prefix + name] for name in ("nu", "r", "sigma"))
    return Dual(nu, r, sigma, gamma)


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
    "status": (str,), "objective": _NUMBER, "lower_bound": _NUMBER, "gap": _NUMBER,
    "tolerance": _NUMBER, "exact": (bool,), "unique": (bool,), "nullity": (int,),
    "method": (str,), "seconds": _NUMBER, "failure": _NUMBER, "renaming": (bool,),
    "reason": (str,), "interrupted": (bool,), "dual_bound": _NUMBER,
}  # fmt: skip
_ARRAYS = ("labels", "moved", "certified_nodes", "eigenvalues")
# Some numbers and words.
_LARGEST_HEADER = 1 << 16
