"""What a case is, the files that cases are made from, and the commands that refuse them."""

from __future__ import annotations

import csv
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from nodeproof import NodeClassifier
from nodeproof.datasets import make_planted
from nodeproof.storage.graph_folder import write_graph_folder


@dataclass(frozen=True)
class Seeds:
    """Files that are as they should be, to damage copies of.

    Attributes
    ----------
    folder : pathlib.Path
        Holds ``edges.csv``, ``features.csv`` and ``labels.csv``; ``model.npz``,
        ``classifier.npz`` and ``certificate.npz``; and the graph folder ``graph``.
    """

    folder: Path

    def __getitem__(self, name: str) -> bytes:
        return (self.folder / name).read_bytes()


@dataclass(frozen=True)
class Case:
    """A file, or several, that must be refused.

    Attributes
    ----------
    name : str
        What is wrong.
    make : callable
        Writes it into an empty folder; returns the command's arguments.
    """

    name: str
    make: Callable[[Path, Seeds], list[Any]]


def make_seeds(folder: Path) -> Seeds:
    """Fit a small model, and write it with all that goes in and out."""
    data = make_planted(cluster_size=20, p=0.4, q=0.1, n_features=3, n_noise=1, random_state=0)
    names = [f"v{k:02d}" for k in range(60)]
    links = sp.triu(data.graph).tocoo()
    rows = {
        "edges.csv": [["source", "target"]]
        + [[names[u], names[v]] for u, v in zip(links.row, links.col, strict=True)],
        "features.csv": [["node", *(f"x{j}" for j in range(data.X.shape[1]))]]
        + [[names[k], *np.round(data.X[k], 4).tolist()] for k in range(60)],
        "labels.csv": [["node", "label"]]
        + [[names[k], f"class {data.y[k]}"] for k in range(60) if data.y[k] >= 0],
    }
    for name, lines in rows.items():
        with (folder / name).open("w", newline="") as file:
            csv.writer(file).writerows(lines)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        clf = NodeClassifier(random_state=0).fit(data.X, data.y, graph=data.graph)
        clf.fitted_ = replace(clf.fitted_, node_ids=np.array(names))
        clf.save(folder / "model.npz")
        clf.certify(time_budget=0).save(folder / "certificate.npz")
        from nodeproof.terms import Labels, Softmax

        clf = NodeClassifier(terms=[Softmax(hops=2, rounds=0), Labels()], random_state=0)
        clf.fit(data.X, data.y, graph=data.graph).save(folder / "classifier.npz")
    write_graph_folder(folder / "graph", data.graph, names)
    return Seeds(folder)


CASES: list[Case] = []


def case(name: str) -> Callable[[Callable[[Path, Seeds], list[Any]]], None]:
    def add(make: Callable[[Path, Seeds], list[Any]]) -> None:
        CASES.append(Case(name, make))

    return add


def add(name: str, make: Callable[[Path, Seeds], list[Any]]) -> None:
    CASES.append(Case(name, make))


def fit(path: Path, *options: Any) -> list[Any]:
    return ["fit", path, "--out", path.parent / "out", *options]


def fit_beside(path: Path, option: str, seeds: Seeds, *more: Any) -> list[Any]:
    """Fit good links with this file of features or labels."""
    return fit_into(path.parent, seeds.folder / "edges.csv", option, path, *more)


def fit_into(folder: Path, edges: Path, *options: Any) -> list[Any]:
    return ["fit", edges, "--out", folder / "out", *options]


def convert(path: Path, *options: Any) -> list[Any]:
    return ["convert", path, path.parent / "out", *options]


def certify(path: Path) -> list[Any]:
    return ["certify", path, "--time-budget", "0"]


def verify(path: Path) -> list[Any]:
    return ["certify", path, "--verify"]


def fit_text(name: str, content: bytes, file: str, *options: Any) -> None:
    def make(folder: Path, seeds: Seeds) -> list[Any]:
        (folder / file).write_bytes(content)
        return fit(folder / file, *options)

    add(name, make)
