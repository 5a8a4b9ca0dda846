"""Beyond the paper: targets that calibrated block CADO has to meet."""

from __future__ import annotations

from nodeproof.paper.experiments.claims.checks import (
    BOUND,
    SLACK,
    Finding,
    Gap,
    Look,
    claim,
    gaps,
    limit,
    none_below,
    percent,
    share,
)
from nodeproof.paper.experiments.claims.paper import BEST, FIG1, best_configuration

__all__ = ["OWN"]

#: where a target of our own is claimed
OWN = "our own target"

_OURS = ("calibrated",)
_CLOSE = 0.02
_MEANINGFUL = 0.6
_BEHIND = 0.005
_SHARE = 0.95


@claim(
    "close-to-the-bound",
    "The full model is close to the best that any method can reach.",
    OWN,
    f"at every grid point of Figure 1 where {BOUND} is above {share(_MEANINGFUL)}, the full "
    f"model is at most {limit(_CLOSE)} below it",
    FIG1,
    _OURS,
)
def _(look: Look) -> Finding:
    found: list[Gap] = []
    for panel in look.there(FIG1):
        bound = look.bound(panel)
        here = gaps(look, panel, look.curve(panel, "GFL"), {BOUND: bound})
        meant = {look.place(panel, x) for x in bound.x if bound.at(x).mean() > _MEANINGFUL}
        found += [gap for gap in here if gap.place in meant]
    return none_below(found, _CLOSE)


@claim(
    "no-baseline-ahead",
    "No baseline does better than the full model.",
    OWN,
    f"at every grid point of Figure 1 the full model is at most {limit(_BEHIND)} below the best "
    "baseline",
    FIG1,
    _OURS,
)
def _(look: Look) -> Finding:
    found: list[Gap] = []
    for panel in look.there(FIG1):
        found += gaps(look, panel, look.curve(panel, "GFL"), look.baselines(panel))
    return none_below(found, _BEHIND)


@claim(
    "no-configuration-ahead",
    "More sources never cost accuracy.",
    OWN,
    f"in Figures 1 and 3, {BEST}",
    (*FIG1, "n", "m", "clusters"),
    _OURS,
)
def _(look: Look) -> Finding:
    return best_configuration(look, (*FIG1, "n", "m", "clusters"))


@claim(
    "sixty-clusters",
    "The full model keeps up with many clusters.",
    OWN,
    f"at c = 60 the full model reaches {share(_SHARE)} of {BOUND}",
    ("clusters",),
    _OURS,
)
def _(look: Look) -> Finding:
    full = look.at("clusters", 60, "GFL")
    bound = look.at("clusters", 60, "GF", "genie")
    return Finding(
        full >= _SHARE * bound - SLACK,
        f"{percent(full)} where the bound is {percent(bound)}: {percent(full / bound)} of it.",
    )
