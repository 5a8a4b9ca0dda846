"""The settings of a fit: the parameters of `NodeClassifier`, frozen and checked."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from nodeproof.auto.experts import as_experts
from nodeproof.distributed import as_engine
from nodeproof.errors import InputError
from nodeproof.inputs.preparation import check_steps
from nodeproof.runtime.threads import check_jobs
from nodeproof.solvers.base import LARGEST, MOST_STARTS, check_at_least, check_count

__all__ = ["Settings", "check_seed", "seed_of"]


@dataclass(frozen=True)
class Settings:
    """How to fit; :class:`nodeproof.NodeClassifier` describes each setting."""

    n_classes: int | None = None
    terms: Any = "auto"
    experts: Any = "auto"
    null_model: str = "auto"
    threshold: Any = "auto"
    weights: Any = "auto"
    son: float = 0.0
    solver: Any = "auto"
    temperature: float = 1.0
    n_init: Any = "auto"
    max_iter: int = 300
    tol: float = 1e-3
    prepare: Any = "auto"
    engine: Any = None
    n_jobs: int | None = None
    random_state: Any = None
    verbose: Any = False
    positive_only: bool = False

    @classmethod
    def of(cls, estimator: Any) -> Settings:
        """Return the settings that an estimator has as attributes of the same names."""
        return cls(**{setting.name: getattr(estimator, setting.name) for setting in fields(cls)})

    @property
    def leaves_rows(self) -> bool:
        """Whether a cluster leaves the memberships in a file."""
        return getattr(self.engine, "scratch", None) is not None

    def check(self) -> None:
        """Raise an error that names the first invalid setting.

        What depends on the data is checked by the fit.
        """
        as_experts(self.experts)
        check_at_least("son", self.son, 0.0, LARGEST)
        as_engine(self.engine)
        check_count("max_iter", self.max_iter)
        if self.n_init != "auto":
            check_count("n_init", self.n_init, MOST_STARTS)
        check_at_least("temperature", self.temperature, 0.0)
        check_at_least("tol", self.tol, 0.0)
        check_jobs(self.n_jobs)
        check_seed(self.random_state)
        if not isinstance(self.prepare, str) or self.prepare != "auto":
            check_steps(self.prepare)

    def seed(self) -> int | None:
        """Return the seed; a RandomState gives a new one each time."""
        return seed_of(self.random_state)

    @property
    def final_temperature(self) -> float:
        """Temperature of the fit: that of a solver object, else the setting."""
        return float(getattr(self.solver, "temperature", self.temperature))


def check_seed(random_state: Any) -> None:
    """Raise an error unless this is a seed, a RandomState or None."""
    whole = isinstance(random_state, int | np.integer)
    try:
        # Integers may exceed scikit-learn's limit.
        valid = random_state >= 0 if whole else bool(check_random_state(random_state))
    except ValueError:
        valid = False
    if not valid:
        raise InputError(
            f"random_state must be an integer ≥ 0, a RandomState or None, got {random_state!r}"
        )


def seed_of(random_state: Any) -> int | None:
    """Return the seed; a RandomState gives a new one each time."""
    if random_state is None or isinstance(random_state, int | np.integer):
        return None if random_state is None else int(random_state)
    return int(check_random_state(random_state).randint(2**31 - 1))
