"""The raw Planetoid files ``ind.<name>.*`` of Cora, Citeseer and Pubmed."""

from __future__ import annotations

import re
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from nodeproof.datasets.dataset import Dataset, assemble
from nodeproof.datasets.parts import graph_of_edges, mask_of
from nodeproof.datasets.pickles import read_pickle
from nodeproof.errors import InputError, count_of
from nodeproof.storage.npz import reading
from nodeproof.tables.arrays import as_features

__all__ = ["PARTS", "find_planetoid", "read_planetoid"]

#: what follows ``ind.<name>.`` in the names of the eight files
PARTS = ("x", "tx", "allx", "y", "ty", "ally", "graph", "test.index")

_NAME = re.compile(rf"ind\.(.+?)(?:\.(?:{'|'.join(map(re.escape, PARTS))}))?")

# So many nodes after those to train on are for validation, as everybody has it.
_VALIDATION = 500


def find_planetoid(path: Path) -> list[Path]:
    """Return the sets at a path, as the common beginning ``…/ind.<name>`` of their files.

    Parameters
    ----------
    path : pathlib.Path
        A folder, one of the eight files, or ``ind.<name>`` in the folder.

    Returns
    -------
    list of pathlib.Path
        One for each set; empty where there is none.
    """
    if path.is_dir():
        return sorted(found.with_suffix("") for found in path.glob("ind.*.graph"))
    match = _NAME.fullmatch(path.name)
    if match is None or not path.with_name(f"ind.{match[1]}.graph").exists():
        return []
    return [path.with_name(f"ind.{match[1]}")]


def read_planetoid(path: Path) -> Dataset:
    """Read the eight files of a set, with the usual public split.

    Rows of ``tx`` belong to the nodes that ``test.index`` lists, in that order. Numbers that are
    missing among them (in Citeseer) are nodes of which the files tell nothing: they have
    links, but all their features are zero and their class is unknown.

    Parameters
    ----------
    path : pathlib.Path
        See `find_planetoid`.
    """
    found = find_planetoid(path)
    if len(found) != 1:
        names = ", ".join(one.name for one in found)
        raise InputError(
            f"{path} holds several sets ({names}): name one of them, e.g. {found[0]}"
            if found
            else f"{path} holds no Planetoid files: expected ind.<name>.{{{','.join(PARTS)}}}"
        )
    begin = found[0]
    file = {part: begin.with_name(f"{begin.name}.{part}") for part in PARTS}
    X_train, X_test, X_all = (_matrix(file[part]) for part in ("x", "tx", "allx"))
    y_train, y_test, y_all = (_one_hot(file[part]) for part in ("y", "ty", "ally"))
    test = _test_index(file["test.index"])
    for part, rows, others in (
        ("y", y_train, X_train.shape[0]),
        ("ty", y_test, X_test.shape[0]),
        ("ally", y_all, X_all.shape[0]),
        ("test.index", test, X_test.shape[0]),
    ):
        if len(rows) != others:
            raise InputError(f"{file[part]} has {len(rows)} rows for {others} rows of features")
    if X_test.shape[1] != X_all.shape[1]:
        raise InputError(
            f"{file['tx']} has {X_test.shape[1]} features, but {file['allx']} {X_all.shape[1]}"
        )
    known = X_all.shape[0]
    if len(test) and (test.min() < known or len(np.unique(test)) < len(test)):
        raise InputError(
            f"{file['test.index']} lists a node twice, or one of the {known} that {file['allx']} "
            "describes"
        )
    n = max(known, int(test.max()) + 1 if len(test) else 0)

    source, target = _links(file["graph"])
    graph, notes = graph_of_edges(file["graph"], source, target, n)
    if blank := n - known - len(test):
        notes.append(f"{count_of(blank, 'node')} without features and class")
    # Row of the stacked features for each node; one row of zeros is for those without.
    row = np.full(n, known + len(test))
    row[:known] = np.arange(known)
    row[test] = known + np.arange(len(test))
    zeros = sp.csr_array((1, X_all.shape[1]), dtype=X_all.dtype)
    X = sp.csr_array(sp.vstack([X_all, X_test, zeros], format="csr"))[row]
    y = np.concatenate([y_all, y_test, [-1]])[row]
    first = len(y_train)
    masks = {
        "train": mask_of(begin, np.arange(first), n),
        "validation": mask_of(begin, np.arange(first, min(first + _VALIDATION, known)), n),
        "test": mask_of(begin, test, n),
    }
    return assemble(begin, graph, X, y, masks=masks, notes=notes)


def _matrix(path: Path) -> sp.csr_array:
    found = read_pickle(path)
    if isinstance(found, dict) or len(found.shape) != 2:
        raise InputError(f"{path} holds no matrix of features")
    with reading(path):
        return sp.csr_array(as_features(path, found))


def _one_hot(path: Path) -> NDArray[np.int64]:
    """Return the class of each row, −1 where none is marked."""
    found = read_pickle(path)
    if not isinstance(found, np.ndarray) or found.ndim != 2 or not np.isin(found, (0, 1)).all():
        raise InputError(f"{path} holds no 0/1 matrix of classes")
    marks = found.sum(axis=1)
    if (marks > 1).any():
        raise InputError(f"{path}: row {int((marks > 1).argmax())} is in several classes")
    return np.where(marks == 1, found.argmax(axis=1), -1)


def _links(path: Path) -> tuple[NDArray[Any], NDArray[Any]]:
    found = read_pickle(path)
    if not isinstance(found, dict):
        raise InputError(f"{path} holds no lists of neighbours")
    with reading(path):
        lengths = np.fromiter(map(len, found.values()), np.int64, len(found))
        source = np.repeat(np.fromiter(found, np.int64, len(found)), lengths)
        target = np.fromiter(chain.from_iterable(found.values()), np.int64, int(lengths.sum()))
    return source, target


def _test_index(path: Path) -> NDArray[np.int64]:
    with reading(path):
        return np.array(path.read_text(encoding="ascii").split(), dtype=np.int64)
