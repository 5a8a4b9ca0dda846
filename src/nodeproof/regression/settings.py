"""The settings of a fit to numeric targets: the parameters of `NodeRegressor`, frozen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

from nodeproof.errors import InputError
from nodeproof.inputs.preparation import check_steps
from nodeproof.regression.experts import NumberExpert
from nodeproof.regression.propagation import PassedOn
from nodeproof.regression.residuals import PassedOnResiduals
from nodeproof.regression.ridge import OwnFeatures, SmoothedFeatures
from nodeproof.regression.trees import BoostedTrees
from nodeproof.runtime.threads import check_jobs
from nodeproof.settings import check_seed, seed_of

__all__ = ["EXPERTS", "RegressionSettings"]

#: all experts by name, in the order in which they are listed
EXPERTS: dict[str, NumberExpert] = {
    expert.name: expert
    for expert in (
        OwnFeatures(),
        SmoothedFeatures(),
        PassedOn(),
        PassedOnResiduals(),
        BoostedTrees(),
    )
}


@dataclass(frozen=True)
class RegressionSettings:
    """How to fit; :class:`nodeproof.NodeRegressor` describes each setting."""

    experts: Any = "auto"
    prepare: Any = "auto"
    n_jobs: int | None = None
    random_state: Any = None
    verbose: Any = False

    @classmethod
    def of(cls, estimator: Any) -> RegressionSettings:
        """Return the settings that an estimator has as attributes of the same names."""
        return cls(**{setting.name: getattr(estimator, setting.name) for setting in fields(cls)})

    def check(self) -> None:
        """Raise an error that names the first invalid setting."""
        self.chosen()
        check_jobs(self.n_jobs)
        check_seed(self.random_state)
        if not isinstance(self.prepare, str) or self.prepare != "auto":
            check_steps(self.prepare)

    def seed(self) -> int | None:
        """Return the seed; a RandomState gives a new one each time."""
        return seed_of(self.random_state)

    def chosen(self) -> list[NumberExpert]:
        """Return the experts that are asked for."""
        asked: Any = self.experts
        if isinstance(asked, str):
            asked = [asked]
        if not isinstance(asked, Sequence) or not asked:
            raise InputError(f'experts must be "auto" or a list of names, got {self.experts!r}')
        without = {name[1:] for name in asked if isinstance(name, str) and name.startswith("-")}
        named = [name for name in asked if not (isinstance(name, str) and name.startswith("-"))]
        wrong = [name for name in [*named, *sorted(without)] if name not in (*EXPERTS, "auto")]
        if wrong:
            raise InputError(
                f"there is no expert {wrong[0]!r} for numeric targets: take some of "
                f"{', '.join(EXPERTS)}, or leave some out, such as ['-trees']"
            )
        wanted = set(EXPERTS) if "auto" in named or not named else set(named)
        found = [expert for name, expert in EXPERTS.items() if name in wanted - without]
        if not found:
            raise InputError(f"experts={self.experts!r} leaves out all of them: keep one")
        return found
