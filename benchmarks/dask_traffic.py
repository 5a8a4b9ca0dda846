"""What travels between the workers of a Dask cluster in one sweep, beside the formula for it.

Every row on the boundary of a worker goes to each of the others: 4·K·b·(P − 1) bytes, b rows on
boundaries, P workers. Measured by the workers' own logs of what they received; on Linux also by
the counter of the loopback device, which adds what goes through the scheduler.
"""

from __future__ import annotations

import argparse
import logging
from pathlib import Path
from typing import Any

import numpy as np
from distributed import Client, LocalCluster

from nodeproof import Problem
from nodeproof.datasets import make_planted
from nodeproof.distributed import DaskEngine
from nodeproof.graph import Graph
from nodeproof.solvers.starts import STARTS
from nodeproof.terms import Covariance, Labels, NodeData


def received(dask_worker: Any) -> int:
    return sum(entry["total"] for entry in dask_worker.transfer_incoming_log)


def rows_on_the_boundary(dask_worker: Any) -> int:
    from nodeproof.distributed.layout import Part

    return sum(len(x.boundary) for x in dask_worker.data.values() if isinstance(x, Part))


def over_loopback() -> int:
    device = Path("/proc/net/dev")
    lines = device.read_text().splitlines() if device.exists() else []
    return next((int(line.split()[1]) for line in lines if line.strip().startswith("lo:")), 0)


def measure(n: int, n_classes: int, n_workers: int, degree: int, sweeps: int) -> None:
    data = make_planted(
        n_classes,
        n // n_classes,
        p=degree / 2 / (n // n_classes),
        q=degree / 2 / (n - n // n_classes),
        n_features=16,
        label_ratio=0.01,
        random_state=0,
    )
    nodes = NodeData(n_classes, data.X, data.y)
    terms = [Covariance().bind(nodes), Labels().bind(nodes)]
    problem = Problem(Graph(data.graph), terms, n_classes)
    W = STARTS["labels"](problem, np.random.default_rng(0))
    models = problem.fit_models(W)
    with (
        LocalCluster(
            n_workers=n_workers,
            threads_per_worker=1,
            dashboard_address=None,
            silence_logs=logging.CRITICAL,
        ) as cluster,
        Client(cluster) as client,
    ):
        rows = DaskEngine(client).open(problem).place(W)
        rows.sums()  # what is known before the first sweep has arrived
        boundary = sum(client.run(rows_on_the_boundary).values())
        before, wire = sum(client.run(received).values()), over_loopback()
        for _ in range(sweeps):
            rows.sweep(models, 1.0)
        rows.sums()  # so has what the last batches found
        wire = over_loopback() - wire
        found = (sum(client.run(received).values()) - before) / sweeps
    expected = 4 * n_classes * boundary * (n_workers - 1)
    print(f"n = {n}, K = {n_classes}, {n_workers} workers, {boundary} rows on boundaries")
    print(f"formula          {expected / 1e6:9.2f} MB a sweep")
    print(f"workers received {found / 1e6:9.2f} MB a sweep ({found / expected:.3f} of it)")
    print(f"over loopback    {wire / sweeps / 1e6:9.2f} MB a sweep, all messages included")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nodes", type=int, default=50_000)
    parser.add_argument("--classes", type=int, default=10)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--degree", type=int, default=20)
    parser.add_argument("--sweeps", type=int, default=3)
    given = parser.parse_args()
    measure(given.nodes, given.classes, given.workers, given.degree, given.sweeps)
