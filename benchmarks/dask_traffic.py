"""What the workers of a Dask cluster receive in one sweep, beside the formula for it.

A worker asks for the memberships at the far ends of its links, step by step: 4·K·h bytes, h the
nodes of other workers that its steps need. Measured by the kernel, which counts the bytes that
each worker's connections have received (Linux; messages of the scheduler included), and by the
workers themselves. With ``--project``, from the constants measured here: what 10¹⁰ and 10¹² links
would take.
"""

from __future__ import annotations

import argparse
import logging
import os
import socket
import struct
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from distributed import Client, LocalCluster

from nodeproof import Problem
from nodeproof.datasets import make_planted
from nodeproof.distributed import DaskEngine
from nodeproof.graph import Graph
from nodeproof.solvers.sweep import count_batches
from nodeproof.storage.graph_folder import write_graph_folder
from nodeproof.terms import Labels, NodeData

# Of struct tcp_info: tcpi_bytes_received, from Linux 4.1 on.
_TCP_INFO, _RECEIVED = 11, 128


def received() -> int:
    """Return the bytes that the open connections of this process have received."""
    total = 0
    for entry in Path("/proc/self/fd").iterdir():
        try:
            if not str(entry.readlink()).startswith("socket:"):
                continue
            with socket.socket(fileno=os.dup(int(entry.name))) as connection:
                if connection.family in (socket.AF_INET, socket.AF_INET6):
                    told = connection.getsockopt(socket.IPPROTO_TCP, _TCP_INFO, 256)
                    total += struct.unpack_from("Q", told, _RECEIVED)[0]
        except (OSError, struct.error):
            continue
    return total


def held(dask_worker: Any) -> dict[str, int]:
    """Return what a worker holds and asks for."""
    from nodeproof.distributed.worker import Done

    states = {id(x.state): x.state for x in list(dask_worker.data.values()) if isinstance(x, Done)}
    (state,) = states.values()
    return {
        "links": len(state.part.indices),
        "rows": len(state.W),
        "steps": len(state.part.steps),
        "needed": state.part.rows_received,
        "received": state.rows_received,
    }


@dataclass(frozen=True)
class Measured:
    """What a sweep took on the cluster.

    Attributes
    ----------
    n_workers : int
        Their number.
    batch : float
        Seconds per batch, without links.
    message : float
        Seconds per message from worker to worker, with its answer.
    link : float
        Seconds per entry of the adjacency matrix, on one core.
    """

    n_workers: int
    batch: float
    message: float
    link: float


def build(folder: Path, n: int, n_classes: int, degree: int) -> tuple[Problem, np.ndarray]:
    data = make_planted(
        n_classes,
        n // n_classes,
        p=degree / 2 / (n // n_classes),
        q=degree / 2 / (n - n // n_classes),
        label_ratio=0.01,
        random_state=0,
    )
    write_graph_folder(folder / "graph", data.graph)
    labels = Labels().bind(NodeData(n_classes, y=np.asarray(data.y)))
    return Problem(Graph(folder / "graph"), [labels], n_classes), np.asarray(data.y)


def sweep_seconds(problem: Problem, client: Any, folder: Path, sweeps: int) -> tuple[float, Any]:
    """Return the seconds per sweep, and the memberships."""
    workspace = DaskEngine(client, folder).open(problem)
    rows = workspace.place(workspace.start("labels", np.random.default_rng(0)))
    models = problem.fit_models(np.asarray(rows.W))
    rows.sweep(models, 1.0)  # compiles
    return best(lambda: rows.sweep(models, 1.0), sweeps), (workspace, rows, models)


def best(work: Callable[[], Any], repeats: int) -> float:
    """Return the seconds that something takes, at best."""
    found = []
    for _ in range(repeats):
        begin = time.perf_counter()
        work()
        found.append(time.perf_counter() - begin)
    return min(found)


def measure(
    n: int, n_classes: int, n_workers: int, degree: int, sweeps: int, folder: Path
) -> Measured:
    problem, y = build(folder, n, n_classes, degree)
    entries = problem.graph.n_entries if problem.graph else 0
    cluster = LocalCluster(
        n_workers=n_workers,
        threads_per_worker=1,
        dashboard_address=None,
        silence_logs=logging.CRITICAL,
    )
    with cluster, Client(cluster) as client:
        alone = Problem(None, [Labels().bind(NodeData(n_classes, y=y))], n_classes)
        empty, _ = sweep_seconds(alone, client, folder, sweeps)
        _, (workspace, rows, models) = sweep_seconds(problem, client, folder, sweeps)
        before, start = client.run(received), client.run(held)
        totals = rows.sums().totals
        for _ in range(sweeps):
            rows.sweep(models, 1.0, totals)
        after, end = client.run(received), client.run(held)
        message = client.submit(
            message_seconds, rows._states[0], workers=[workspace.homes[0]], pure=False
        ).result()
        link = client.submit(
            link_seconds, problem.graph.folder.path, n_classes, workers=[min(after)]
        ).result()
        print(f"n = {n:,}, {entries // 2:,} links, K = {n_classes}, {n_workers} workers")
        print("worker  links    rows     steps  formula      rows received   over TCP")
        for number, home in enumerate(sorted(after)):
            now = end[home]
            formula = 4 * n_classes * now["needed"]
            told = 4 * n_classes * (now["received"] - start[home]["received"]) / sweeps
            wire = (after[home] - before[home]) / sweeps
            print(
                f"{number:<6}  {now['links'] / entries:6.1%}  {now['rows'] / n:6.1%}"
                f"  {now['steps']:6d}  {formula / 1e6:8.2f} MB"
                f"  {told / formula:6.3f} of it    {wire / formula:6.3f} of it"
            )
        workspace.close()
    found = Measured(n_workers, empty / count_batches(n_classes), message, link)
    print(
        f"a batch takes {1e3 * found.batch:.0f} ms without links, a message "
        f"{1e3 * found.message:.2f} ms, an entry {1e9 * found.link:.1f} ns on one core"
    )
    return found


def message_seconds(done: Any, repeats: int = 200) -> float:
    """Return the seconds that asking another worker for a few memberships takes."""
    state = done.state
    steps = state.part.counts.sum(axis=1)
    step = state.part.steps[int(np.argmin(np.where(steps > 0, steps, steps.max() + 1)))]
    asked = np.count_nonzero(state.part.counts[step.number])
    return best(lambda: state.receive(2**60, step), repeats) / max(1, asked)


def link_seconds(path: Path, n_classes: int) -> float:
    """Return the seconds that one core takes per entry, in a pass over the links."""
    from nodeproof.runtime import threads

    graph = Graph(path, "uniform")
    W = np.full((graph.n_nodes, n_classes), 1 / n_classes, dtype=np.float32)
    with threads.using(1):
        graph.link_mass(W)  # compiles
        return best(lambda: graph.link_mass(W), 10) / graph.n_entries


def project(found: Measured, n_classes: int, degree: int, wire: float) -> None:
    """Print what larger graphs would take, random ones: every link leads anywhere."""
    print()
    print("Per worker:")
    print(
        "| links | workers | size of links | of memberships | received per sweep | network "
        "| messages | pass over links | batches | client |"
    )
    print("|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|")
    batches = count_batches(n_classes)
    for power, n_workers in ((9, 16), (10, 64), (11, 256), (12, 1024)):
        n = 2 * 10**power / degree
        entries = 2 * 10**power / n_workers
        away = entries * (n_workers - 1) / n_workers
        # The other end, and its position at the worker that is asked for it.
        links = 4 * (entries + away)
        rows = 4 * n_classes * n / n_workers * 9 / 8
        sent = 4 * n_classes * away
        # Steps have an eighth as many such links as the worker has nodes.
        steps = max(batches, 8 * away / (n / n_workers))
        print(
            f"| 10^{power} | {n_workers} | {links / 1e9:.0f} GB | {rows / 1e9:.1f} GB "
            f"| {sent / 1e9:.0f} GB | {8 * sent / wire:.0f} s "
            f"| {steps * (n_workers - 1) * found.message:.0f} s | {entries * found.link:.0f} s "
            f"| {batches * found.batch * n_workers / found.n_workers:.0f} s "
            f"| {24 * n / 1e9:,.0f} GB |"
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nodes", type=int, default=200_000)
    parser.add_argument("--classes", type=int, default=10)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--degree", type=int, default=20)
    parser.add_argument("--sweeps", type=int, default=3)
    parser.add_argument("--project", action="store_true", help="estimate larger graphs as well")
    parser.add_argument("--wire", type=float, default=1e10, help="bits per second and worker")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        found = measure(
            given.nodes, given.classes, given.workers, given.degree, given.sweeps, Path(place)
        )
    if given.project:
        project(found, given.classes, given.degree, given.wire)
