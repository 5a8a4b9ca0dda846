"""The registry of experiments: one entry per panel, and nothing else to edit for a new one."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from nodeproof.paper.experiments.methods import METHODS, READINGS, SOURCES
from nodeproof.paper.experiments.panels import Axis, Curve, Panel, register, with_start
from nodeproof.problem import PAPER_WEIGHTS

__all__: list[str] = []

GENIE = tuple(Curve("genie", sources) for sources in ("G", "F", "GF"))
CALIBRATED, FIXED = (
    tuple(Curve(method, sources) for sources in SOURCES) for method in ("calibrated", "fixed")
)
BASELINES = (
    Curve("spectral", "G"),
    Curve("label propagation", "GL"),
    Curve("gaussian", "FL"),
    Curve("ir-ls", "GFL"),
    Curve("ir-map", "GFL"),
    Curve("bregman", "GFL"),
)


def _cado(*configurations: str) -> tuple[tuple[Curve, ...], tuple[Curve, ...]]:
    """Return CADO as published from a random start, in both readings, and from other starts."""
    curves = [Curve(name, s) for name in READINGS for s in configurations]
    there = [curve for curve in curves if with_start(curve.method, curve.sources) == curve.method]
    starts = [READINGS[curve.method].start for curve in there]
    from_random = tuple(c for c, start in zip(there, starts, strict=True) if start == "random")
    return from_random, tuple(curve for curve in there if curve not in from_random)


# The paper clusters the graph alone by spectral clustering, not by CADO.
CADO, CADO_STARTS = _cado(*(sources for sources in SOURCES if sources != "G"))
EVERYTHING = (*GENIE, *CALIBRATED, *FIXED, *CADO, *BASELINES)
# Where the paper has no figure, the other solvers run the full model only.
_FULL, _FULL_STARTS = _cado("GFL")
BEYOND = (*GENIE, *CALIBRATED, FIXED[-1], *_FULL, *BASELINES)

# What takes long, or needs torch.
SDP = (Curve("sdp", "G"),)
NETWORKS = tuple(Curve(method, "GFL") for method in ("gcn", "graphsage", "gat"))
_SLOW = {curve.method for curve in (*SDP, *NETWORKS)}


def _fewer_if_slow(x: float, curve: Curve, seeds: int) -> int:
    few = 1 if curve in SDP else 3
    return min(seeds, few) if curve.method in _SLOW else seeds


# ω = 0 would make the covariances singular.
_FLOOR = 1e-6

# --8<-- [start:p]
register(Panel(
    "p", "fig1", "Graph structure",
    Axis(
        "connectivity inside a class, $p$  ($q = 0.05$)",
        tuple(round(0.01 * k, 2) for k in range(16)), (0.0, 0.05, 0.1),
        mark=(0.05, "$p = q$"),
    ),
    lambda p: {"p": p},
    EVERYTHING,
    extended=(*SDP, *CADO_STARTS), peers=NETWORKS, seeds=_fewer_if_slow,
))  # fmt: skip
# --8<-- [end:p]

register(Panel(
    "omega", "fig1", "Feature quality",
    Axis(
        r"noise of the features, $\omega$",
        (0.0, 0.04, 0.1, 0.2, 0.3, 0.5, 0.7, 0.85, 1.0, 1.2, 1.5, 2.0, 3.0, 4.0, 5.0),
        (0.04, 0.3, 1.0, 3.0), scale="sqrt",
        mark=(1.0, r"$\omega = \sigma$"),
    ),
    lambda omega: {"omega": max(omega, _FLOOR)},
    EVERYTHING,
    extended=CADO_STARTS,
    peers=NETWORKS, seeds=_fewer_if_slow,
    note="Where ω = σ = 1 features say nothing; beyond, the noise subspace tells the classes "
    "apart, so that accuracy rises again.",
))  # fmt: skip

register(Panel(
    "labels", "fig1", "Training labels",
    Axis(
        "share of nodes with a label, $n_t / n_0$",
        (0.0, 0.01, 0.02, 0.03, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5), (0.0, 0.05, 0.2),
        scale="sqrt",
    ),
    lambda ratio: {"label_ratio": ratio},
    EVERYTHING,
    extended=CADO_STARTS,
    peers=NETWORKS, seeds=_fewer_if_slow,
))  # fmt: skip


def _weights(place: int) -> Callable[[float], dict[str, Any]]:
    def options(beta: float) -> dict[str, Any]:
        weights = (*PAPER_WEIGHTS[:place], beta, *PAPER_WEIGHTS[place + 1 :])
        # At the paper's own weights, the cells are those of the other figures.
        return {} if weights == PAPER_WEIGHTS else {"weights": weights}

    return options


_THREE = ("GF", "GL", "GFL")
_CADO_OF_THREE, _STARTS_OF_THREE = _cado(*_THREE)
_WEIGHTED = (
    Curve("genie", "GF"),
    *(Curve("fixed", sources) for sources in _THREE),
    *_CADO_OF_THREE,
    Curve("calibrated", "GFL"),
)

for _place, (_name, _source, _grid, _quick) in enumerate((
    ("beta_g", "graph", (0, 0.25, 0.5, 1, 2, 3, 4, 5, 6, 8, 10), (0, 1, 5)),
    ("beta_f", "features", (0, 0.5, 1, 2.5, 5, 7.5, 10, 15, 20, 25), (0, 2.5, 25)),
    ("beta_l", "labels", (0, 1, 2.5, 5, 10, 13, 20, 30, 40, 50), (0, 13, 50)),
)):  # fmt: skip
    register(Panel(
        _name, "fig2", f"Weight of the {_source}",
        Axis(
            rf"$\beta_{_name[-1]}$", _grid, _quick,
            mark=(PAPER_WEIGHTS[_place], "the paper's"),
        ),
        lambda beta: {},
        _WEIGHTED,
        options=_weights(_place),
        extended=_STARTS_OF_THREE,
    ))  # fmt: skip


def _small_enough(n: float, curve: Curve, seeds: int) -> int:
    # A semidefinite program takes O(n³): 20 seconds for 900 nodes.
    return 0 if curve in SDP and n > 900 else _fewer_if_slow(n, curve, seeds)


register(Panel(
    "n", "fig3", "Number of nodes",
    Axis(
        "number of nodes, $n$",
        (30, 60, 90, 150, 300, 450, 600, 900, 1200, 1500), (30, 900),
        scale="log",
    ),
    lambda n: {"cluster_size": n // 3},
    EVERYTHING,
    extended=(*SDP, *CADO_STARTS), seeds=_small_enough,
))  # fmt: skip

register(Panel(
    "m", "fig3", "Number of features",
    Axis(
        "number of features, $m$  (two thirds noise)",
        (3, 6, 9, 12, 15, 18, 21, 24, 27), (3, 27),
    ),
    lambda m: {"n_features": m, "n_noise": 2 * m // 3},
    EVERYTHING,
    extended=CADO_STARTS,
))  # fmt: skip


def _many_clusters(c: float, curve: Curve, seeds: int) -> int:
    if c < 20 or (c == 20 and curve.method in ("calibrated", "genie", "spectral")):
        return seeds
    if c == 20:
        return min(seeds, 3)
    if curve.method not in ("calibrated", "genie"):
        return 0
    # Without labels, a fit with 60 classes takes a minute.
    alone = curve.method == "calibrated" and curve.sources in ("G", "GF")
    return min(seeds, 1 if c == 60 and alone else 3)


def _many_clusters_extended(c: float, curve: Curve, seeds: int) -> int:
    # What the paper draws: CADO with four configurations, and spectral clustering. With 60
    # classes, a fit takes minutes.
    if c > 20 and ((curve in CADO and curve.sources != "F") or curve.method == "spectral"):
        return min(seeds, 3 if c == 30 else 1)
    return _many_clusters(c, curve, seeds)


register(Panel(
    "clusters", "fig3", "Number of clusters",
    Axis(
        "number of clusters, $c$  (300 nodes each)",
        (2, 3, 5, 10, 20, 30, 60), (2, 5),
        scale="log",
    ),
    lambda c: {"n_clusters": c},
    EVERYTHING,
    extended=CADO_STARTS,
    seeds=_many_clusters,
    extended_seeds=_many_clusters_extended,
))  # fmt: skip

# Harder data, so that the methods differ.
_HARD = {"omega": 0.3, "label_ratio": 0.05}

# The paper's source has pictures of accuracy by q and by π, commented out and without their data.
register(Panel(
    "q", "unprinted", "Links across classes",
    Axis(
        "connectivity across classes, $q$  ($p = 0.1$)",
        (0.0, 0.02, 0.04, 0.05, 0.06, 0.07, 0.08, 0.09, 0.1), (0.02, 0.06, 0.1),
    ),
    lambda q: {"q": q, **_HARD},
    BEYOND,
    extended=_FULL_STARTS,
))  # fmt: skip

register(Panel(
    "label_accuracy", "unprinted", "Wrong labels",
    Axis(
        r"share of labels that are right, $\pi$  ($p = 0.08$)",
        (0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0), (0.4, 0.7, 1.0),
        mark=(1 / 3, "chance"),
    ),
    lambda accuracy: {"label_accuracy": accuracy, "p": 0.08, "omega": 0.3},
    BEYOND,
    extended=_FULL_STARTS,
))  # fmt: skip


# A line that is commented out there: the signal has whatever makes the trace of the covariances 1,
# (1 − m_ω ω²)/(m − m_ω) for each of its eigenvalues.
_M, _M_NOISE = 6, 4


def _trace_one(omega: float) -> dict[str, Any]:
    signal = (1 - _M_NOISE * omega**2) / (_M - _M_NOISE)
    return {"omega": max(omega, _FLOOR), "sigma": math.sqrt(signal)}


register(Panel(
    "omega_trace", "unprinted", "Feature quality, covariances of trace 1",
    Axis(
        r"noise of the features, $\omega$",
        (0.0, 0.04, 0.1, 0.2, 0.25, 0.3, 0.35, 0.4, 0.42, 0.44, 0.46, 0.48, 0.49),
        (0.04, 0.3, 0.4, 0.48),
        mark=(1 / math.sqrt(_M), r"$\omega = \sigma$"),
    ),
    _trace_one,
    (),
    extended=BEYOND,
    note="Trace 1 limits ω to 1/2; features say nothing at ω = 1/√6 = 0.41, and more again beyond.",
))  # fmt: skip

# Beyond the paper.


def _unequal(share: float) -> dict[str, Any]:
    largest = round(900 * share)
    rest = (900 - largest) // 2
    return {"cluster_size": (900 - 2 * rest, rest, rest), **_HARD}


register(Panel(
    "sizes", "beyond", "Unequal classes",
    Axis(
        "share of the largest class, of three",
        (0.34, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9), (0.34, 0.8),
    ),
    _unequal,
    BEYOND,
    extended=_FULL_STARTS,
))  # fmt: skip

register(Panel(
    "heterophily", "beyond", "Heterophily",
    Axis(
        "connectivity inside a class, $p$  ($q = 0.1$)",
        (0.0, 0.02, 0.04, 0.05, 0.06, 0.07, 0.08, 0.1), (0.0, 0.05, 0.1),
    ),
    lambda p: {"p": p, "q": 0.1, **_HARD},
    BEYOND,
    extended=_FULL_STARTS,
))  # fmt: skip

register(Panel(
    "dense", "beyond", "Where the published algorithm is at home",
    Axis(
        "connectivity inside a class, $p$  ($q = 0.1$, 100 nodes per class)",
        (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9), (0.3, 0.6, 0.9),
        mark=(0.5, "density 1/2"),
    ),
    lambda p: {"p": p, "q": 0.1, "cluster_size": 100, "omega": 0.3},
    (
        *GENIE,
        *(Curve(m, s) for m in ("calibrated", "fixed") for s in _THREE),
        *_CADO_OF_THREE,
        Curve("cado", "GFL", {"step": "line-search"}, "CADO with a line search"),
    ),
    extended=_STARTS_OF_THREE,
))  # fmt: skip

register(Panel(
    "phase", "phase", "Graph and features, alone and together",
    Axis(
        "connectivity inside a class, $p$  ($q = 0.05$)",
        (0.0, 0.015, 0.03, 0.04, 0.05, 0.06, 0.07, 0.08, 0.09, 0.1, 0.12), (0.0, 0.05, 0.1),
    ),
    lambda p, omega: {"p": p, "omega": omega},
    (
        *GENIE,
        *(Curve("calibrated", sources) for sources in ("G", "F", "GF")),
    ),
    y=Axis(
        r"noise of the features, $\omega$",
        (0.04, 0.1, 0.2, 0.3, 0.4, 0.5, 0.7, 1.0), (0.04, 0.3, 1.0),
    ),
    seeds=lambda x, curve, seeds: min(seeds, 3),
    kind="map",
))  # fmt: skip

# Questions about exact recovery, for graph and scores together and for each alone.
ANSWERS = tuple(
    Curve(method, sources, title=f"{METHODS[method].title}: {title}")
    for sources, title in (("GL", "together"), ("G", "graph alone"), ("L", "nodes alone"))
    for method in ("theorem", "program", "proof", "recovery", "possible")
    # Without links the best score is optimal, and that needs no proof.
    if sources != "L" or method not in ("program", "proof")
)


def _scored(n_clusters: int, **settings: Any) -> dict[str, Any]:
    """Return planted data where every node is labelled and features are noise, one per class."""
    noise = {"n_features": n_clusters, "n_noise": 0, "label_ratio": 1.0}
    return {"n_clusters": n_clusters, **noise, **settings}


# Proofs take O(n³) per class: the largest n for which they are asked.
_PROVABLE = {"proof": 288, "program": 648}


def _few_seeds(n: float, curve: Curve, seeds: int) -> int:
    return min(seeds, 3) if n <= _PROVABLE.get(curve.method, n) else 0


register(Panel(
    "regimes", "theorem", "From few large classes to many small ones",
    Axis("number of nodes, $n$", (128, 192, 288, 432, 648, 972), (128, 288)),
    lambda n, size: _scored(round(n / size), cluster_size=int(size), p=0.95, q=0.05),
    ANSWERS,
    y=Axis("nodes in each class, $n_i$", (8, 12, 16, 24, 32, 48, 64), (12, 24, 64)),
    options=lambda _: {"rho": 0.5},
    seeds=_few_seeds,
    kind="answers",
    line=(math.sqrt, r"$n_i = \sqrt{n}$"),
))  # fmt: skip

register(Panel(
    "variability", "theorem", "Scores that vary, and links inside classes",
    Axis(
        r"gradient variability, $\rho$",
        (0.25, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 4.0), (0.5, 2.0),
    ),
    lambda rho, p: _scored(15, cluster_size=12, p=p, q=0.02),
    ANSWERS,
    y=Axis(
        "connectivity inside a class, $p$",
        (0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98, 1.0), (0.5, 0.7, 1.0),
    ),
    options=lambda rho: {"rho": rho},
    seeds=_few_seeds,
    kind="answers",
))  # fmt: skip


def _traced(name: str, variant: str = "", **settings: str) -> Curve:
    reading = READINGS[name]
    title = f"{reading.title}, {variant}" if variant else reading.title
    return Curve("trace", "GFL", {"solver": "cado", **reading.settings, **settings}, title)


register(Panel(
    "convergence", "convergence", "Convergence from the same random start",
    Axis("iteration", (0.0,), (0.0,)),
    lambda _: {},
    (
        *(_traced(name) for name, reading in READINGS.items() if reading.start == "random"),
        _traced("cado", "line search", step="line-search"),
        _traced("cado", "averages of W", average="W"),
        Curve("trace", "GFL", {"solver": "block", "temperature": 0.0, "max_iter": 100},
              "block CADO, T = 0"),
        Curve("trace", "GFL", {"solver": "block", "max_iter": 100}, "block CADO, T = 1"),
        Curve("trace", "GFL", {"solver": "block", "weights": "calibrated"},
              "block CADO, calibrated"),
    ),
    seeds=lambda x, curve, seeds: min(seeds, 5),
    kind="trace",
    extended=tuple(_traced(name) for name, r in READINGS.items() if r.start != "random"),
))  # fmt: skip
