"""The solvers of the convex program beside each other, and what the program recovers.

    python benchmarks/convex.py [agree] [rate] [covariance] [speed] [recovery] [--out DIR]

agree       `ExactSDP`, `BlockADMM` and `CANO` on 20 planted instances: objectives, similarities
            and lower bounds
rate        how CANO's error falls with the iterations T, and the oracle calls it takes
covariance  CANO over the spectral box against 20 runs of block CADO
speed       `BlockADMM` against `ExactSDP` with SCS, both to a proven gap of 1e-4; n = 500
recovery    when the solution is the planted partition: why the threshold matters
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from nodeproof import Problem, datasets, solvers, terms
from nodeproof.graph import Graph

CONSOLE = Console(width=140)


def planted(
    n: int, n_classes: int, p: float, q: float, t: float, son: float, seed: int, labels: bool = True
) -> tuple[datasets.Planted, Problem]:
    """Return planted data, and its problem with labels."""
    data = datasets.make_planted(
        n_classes, cluster_size=n // n_classes, p=p, q=q, label_ratio=0.3, random_state=seed
    )
    bound = [terms.Labels().bind(terms.NodeData(n_classes, y=data.y))] if labels else []
    graph = Graph(data.graph, "uniform")
    return data, Problem(graph, bound, n_classes, weights=(1.0, 0.0, 2.0), threshold=t, son=son)


def timed(solver: Any, problem: Problem, repeats: int = 1) -> tuple[Any, float]:
    """Return the result and the least time."""
    seconds = []
    for _ in range(repeats):
        began = time.perf_counter()
        result = solver.solve(problem)
        seconds.append(time.perf_counter() - began)
    return result, min(seconds)


def agree(out: Path) -> None:
    table = Table(title="three solvers, 20 planted instances with labels")
    for column in (
        "n", "K", "p/q", "t", "μ1", "objective", "ADMM off", "CANO off", "L: ADMM", "L: CANO",
        "bounds hold", "seconds",
    ):  # fmt: skip
        table.add_column(column, justify="right")
    worst = np.zeros(4)
    for number in range(20):
        n, K = (30, 36, 42, 48, 60)[number % 5], 2 + number % 2
        dense, son = number // 2 % 2 == 0, (0.0, 0.02)[number // 4 % 2]
        p, q, t = (0.8, 0.2, 0.5) if dense else (0.3, 0.05, 0.15)
        _, problem = planted(n, K, p, q, t, son, seed=number)
        runs = [
            timed(solver, problem)
            for solver in (
                solvers.ExactSDP("clarabel" if n <= 36 else "scs", tol=1e-4, random_state=0),
                solvers.BlockADMM(tol=1e-4, random_state=0),
                solvers.CANO(tol=5e-4, max_iter=1500, random_state=0),
            )
        ]
        exact, admm, cano = (result for result, _ in runs)
        size = max(1.0, abs(exact.program_value))
        off = [abs(r.program_value - exact.program_value) / size for r in (admm, cano)]
        apart = [np.linalg.norm(r.point.L - exact.point.L) / n for r in (admm, cano)]
        least = min(r.program_value for r in (exact, admm, cano))
        hold = all(r.lower_bound <= least for r in (exact, admm, cano))
        worst = np.maximum(worst, [*off, *apart])
        table.add_row(
            str(n), str(K), f"{p}/{q}", str(t), str(son), f"{exact.program_value:.3f}",
            *(f"{x:.1e}" for x in off), *(f"{x:.4f}" for x in apart), "yes" if hold else "NO",
            " / ".join(f"{seconds:.1f}" for _, seconds in runs),
        )  # fmt: skip
    CONSOLE.print(table)
    CONSOLE.print(
        f"worst: objective {worst[:2].max():.1e} (allowed 1e-3), "
        f"L {worst[2:].max():.4f} (allowed .02)"
    )


def rate(out: Path) -> None:
    steps = 800
    _, problem = planted(45, 3, 0.3, 0.05, 0.15, 0.0, seed=0)
    reference = solvers.BlockADMM(tol=1e-6, max_iter=20_000).solve(problem)
    best = 0.5 * (reference.program_value + reference.lower_bound)
    result = solvers.CANO(tol=0.0, max_iter=steps, relaxation=1.0, random_state=0).solve(problem)
    off = np.abs(np.array(result.history["objective"]) - best) / abs(best)
    error = np.maximum(off, result.history["feasibility"])
    T = np.arange(1, steps + 1)
    late = T >= 20
    slope = np.polyfit(np.log(T[late]), np.log(error[late]), 1)[0]
    CONSOLE.print(
        f"CANO, n = 45, K = 3, T = 20…{steps}: slope {slope:.2f} (allowed −0.9); T × error between "
        f"{(T * error)[late].min():.3f} and {(T * error)[late].max():.3f}"
    )
    table = Table(title="oracle calls of CANO to reach ε, and to stay below")
    for column in ("ε", "T", "LMOs", "projections"):
        table.add_column(column, justify="right")
    for epsilon in (1e-1, 3e-2, 1e-2, 3e-3, 1e-3, 3e-4):
        above = np.flatnonzero(error > epsilon)
        at = int(above[-1]) + 1 if len(above) else 0
        if at < steps:
            lmo = int(result.history["lmo"][at])
            table.add_row(f"{epsilon:g}", str(at + 1), str(lmo), str(at + 1))
        else:
            table.add_row(f"{epsilon:g}", f"> {steps}", "", "")
    CONSOLE.print(table)
    draw_rate(T, error, out / "cano.png")


def draw_rate(T: np.ndarray, error: np.ndarray, path: Path) -> None:
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(5.4, 3.6), layout="constrained")
    axes.loglog(T, error, label="CANO")
    at = len(T) // 20
    axes.loglog(T, error[at] * T[at] / T, color="0.6", linestyle="--", label="1/T")
    axes.set_xlabel("iterations T")
    axes.set_ylabel("relative error")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)
    plt.close(figure)
    CONSOLE.print(f"picture in {path}")


def covariance(out: Path) -> None:
    data = datasets.make_planted(
        n_clusters=2, cluster_size=20, p=0.7, q=0.2, n_features=3, n_noise=1, omega=0.1,
        random_state=0,
    )  # fmt: skip
    nodes = terms.NodeData(2, X=data.X)
    problem = Problem(
        Graph(data.graph, "uniform"),
        [terms.Covariance().bind(nodes)],
        2,
        weights=(1.0, 2.5, 0.0),
        threshold=0.45,
    )
    best = min(
        solvers.BlockCADO(temperature=0.0, random_state=seed).solve(problem, start="random").value
        for seed in range(20)
    )
    result, seconds = timed(solvers.CANO(tol=2e-3, max_iter=1000, random_state=0), problem)
    CONSOLE.print(
        f"covariances, n = 40, m = 3: CANO {result.program_value:.2f}, lower bound "
        f"{result.lower_bound:.2f} (gap {result.gap:.1%}; {result.status}, {result.n_iter} "
        f"iterations, {seconds:.0f} s); best of 20 block CADO runs {best:.2f}; rounded "
        f"{result.value:.2f}; calls {result.calls}; residuals "
        + ", ".join(f"{name} {size:.0e}" for name, size in result.residuals.items())
    )


def speed(out: Path) -> None:
    table = Table(title="n = 60, K = 3, to a proven gap of 1e-4: seconds, best of 3")
    for column in ("p/q", "μ1", "BlockADMM", "ExactSDP (SCS)", "ratio"):
        table.add_column(column, justify="right")
    for p, q, t in ((0.8, 0.2, 0.5), (0.3, 0.05, 0.15)):
        for son in (0.0, 0.02):
            _, problem = planted(60, 3, p, q, t, son, seed=0)
            _, ours = timed(solvers.BlockADMM(tol=1e-4), problem, repeats=3)
            _, theirs = timed(solvers.ExactSDP("scs", tol=1e-4), problem, repeats=3)
            row = f"{p}/{q}", str(son), f"{ours:.2f}", f"{theirs:.2f}", f"{theirs / ours:.1f}"
            table.add_row(*row)
    CONSOLE.print(table)
    _, problem = planted(501, 3, 0.3, 0.05, 0.15, 0.0, seed=0)
    result, seconds = timed(solvers.BlockADMM(tol=1e-4), problem)
    CONSOLE.print(
        f"n = 501, K = 3, .3/.05: {result.status} in {result.n_iter} iterations, {seconds:.0f} s, "
        f"gap {result.gap:.1e}"
    )


def recovery(out: Path) -> None:
    table = Table(title="is the solution the planted partition? (graph only, K = 3)")
    for column in ("n", "p/q", "t", "seeds", "exact", "mean |L − planted|", "seconds"):
        table.add_column(column, justify="right")
    cases = [
        (150, 0.9, 0.1, 0.5, 10), (150, 0.3, 0.05, 0.5, 10), (150, 0.3, 0.05, 0.15, 10),
        (450, 0.3, 0.05, 0.5, 3), (450, 0.3, 0.05, 0.15, 3),
    ]  # fmt: skip
    for n, p, q, t, seeds in cases:
        exact, off, began = 0, [], time.perf_counter()
        for seed in range(seeds):
            data, problem = planted(n, 3, p, q, t, 0.0, seed, labels=False)
            L = solvers.BlockADMM(tol=1e-4, random_state=0).solve(problem).point.L
            apart = np.abs(L - (data.y_true[:, None] == data.y_true))
            exact += bool(apart.max() <= 1e-2)
            off.append(float(apart.mean()))
        seconds = (time.perf_counter() - began) / seeds
        table.add_row(
            str(n), f"{p}/{q}", str(t), str(seeds), str(exact), f"{np.mean(off):.4f}",
            f"{seconds:.1f}",
        )  # fmt: skip
    CONSOLE.print(table)


PARTS = {part.__name__: part for part in (agree, rate, covariance, speed, recovery)}


def main() -> None:
    """Run the parts that are asked for, or all."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], default=[])
    parser.add_argument("--out", type=Path, default=Path("convex"))
    options = parser.parse_args()
    for name in options.parts or PARTS:
        PARTS[name](options.out)


if __name__ == "__main__":
    main()
