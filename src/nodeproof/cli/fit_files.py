"""Input files of `nodeproof fit`: links, features and labels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nodeproof.cli.console import StageLine
from nodeproof.datasets.reading import read_with_tables, recognise
from nodeproof.errors import InputError, count_of
from nodeproof.fitting import FitData
from nodeproof.inputs import EncodedLabels, encode_labels, encode_names, read_features
from nodeproof.inputs.knn import KnnGraph
from nodeproof.inputs.link_kinds import LinkKinds
from nodeproof.inputs.preparation import Preparation
from nodeproof.runtime import threads
from nodeproof.settings import Settings
from nodeproof.storage.graph_folder import GraphFolder, is_graph_folder
from nodeproof.tables.convert import convert
from nodeproof.tables.folder_tables import read_folder_features, read_folder_labels
from nodeproof.tables.kinds import LinksOfKinds, kinds_by_column, kinds_by_file
from nodeproof.tables.nodes import NodeColumns
from nodeproof.tables.reading import read_tables, refuse_idle
from nodeproof.terms.registry import allow_missing

__all__ = ["FitFiles", "read_files"]


@dataclass(frozen=True)
class FitFiles:
    """The data of a fit, read from files."""

    graph: Any
    n_nodes: int
    n_links: int
    X: Any
    feature_names: list[str] | None
    labels: EncodedLabels | None
    notes: list[str]
    # None if nodes are identified by their positions.
    ids: NDArray[Any] | None
    # How a table of nodes became features.
    preparation: Preparation | None = None
    # Numbers to predict, NaN where unknown.
    targets: NDArray[np.float64] | None = None

    def to_fit_data(self, settings: Settings) -> FitData:
        """Return the data as `fit_nodes` takes it."""
        labels = self.labels or encode_labels(None, settings.n_classes)
        names = self.feature_names
        with threads.using(settings.n_jobs):
            return FitData.build(
                None if self.X is None else read_features(self.X),
                labels,
                self.graph,
                settings.null_model,
                self.ids,
                None if names is None else np.array(names, dtype=object),
                allow_missing(settings.terms),
            )

    def names(self, lo: int, hi: int) -> NDArray[Any]:
        """Return the names of the nodes lo…hi."""
        return np.arange(lo, hi) if self.ids is None else self.ids[lo:hi]


def read_files(
    given: Sequence[Path],
    features: Path | None,
    labels: Path | None,
    classes: int | None,
    out: Path,
    *,
    knn: str | None,
    source: str | None,
    target: str | None,
    weight: str | None,
    strict: bool,
    unknown: tuple[str, ...],
    jobs: int | None,
    show: bool,
    missing: bool,
    nodes: Path | None = None,
    columns: NodeColumns | None = None,
    repeated: str = "max",
    edge_type: str | None = None,
    **options: Any,
) -> FitFiles:
    """Read a graph with its features and labels; links in a folder of files are converted first.

    Parameters
    ----------
    given : sequence of path
        Where the links are: several tables are one kind of links each.
    """
    edges = given[0] if given else None
    unknown_option: dict[str, Any] = {"unknown": unknown} if unknown else {}
    notes: list[str] = []
    made = None
    if knn is not None:
        made = _parse_knn(knn, edges, features or nodes, source, target, weight)
    columns_of_links = options["header"], source, target, weight
    kinds = _read_kinds(given, edge_type, *columns_of_links)
    if edges is not None and (_is_partitioned(edges) or is_graph_folder(edges)):
        _refuse_in_folders(edges, nodes, repeated)
    if edges is not None and _is_partitioned(edges):
        edges = _converted(edges, out, source, target, weight, jobs, show, notes)
        source = target = weight = None
    if edges is None or not is_graph_folder(edges):
        read: Any = read_tables if edges is None or kinds is not None else read_with_tables
        tables = read(
            edges if kinds is None else kinds.together, features, labels, source=source,
            target=target, weight=weight, strict=strict, missing=missing, nodes=nodes,
            columns=columns, repeated=repeated, **options, **unknown_option,
        )  # fmt: skip
        encoded = None
        if tables.y is not None:
            names, codes = np.unique(tables.y, return_inverse=True)
            if len(names) and names[0] == "":  # unknown, and first in the order
                names, codes = names[1:], codes - 1
            encoded = encode_names(names, codes.astype(np.int64), classes)
        graph = made or tables.graph
        told = list(tables.notes)
        if kinds is not None:
            parts, more = kinds.build(tables.ids, repeated)
            graph, told = LinkKinds(parts), told + more
        return FitFiles(
            graph, len(tables.ids), tables.graph.nnz // 2, tables.X, tables.feature_names,
            encoded, told, tables.ids, tables.preparation, tables.targets,
        )  # fmt: skip
    if not source is target is weight is None:
        raise InputError(f"{edges} has no columns: omit --source, --target and --weight-column")
    refuse_idle(features, labels, options["node"], options["label"])
    folder = GraphFolder.open(edges)
    encoded = None
    isolated = int((folder.degrees == 0).sum())
    if isolated and strict:
        raise InputError(f"{count_of(isolated, 'node')} in {edges} without a link")
    if isolated:
        notes.append(f"{count_of(isolated, 'node')} without a link: isolated")
    folder_labels = None
    if labels is not None:
        folder_labels = read_folder_labels(folder, labels, **options, **unknown_option)
        encoded = encode_names(folder_labels.names, folder_labels.codes, classes)
    X, feature_names = None, None
    if features is not None:
        found = read_folder_features(
            folder, features, header=options["header"], node=options["node"], labels=folder_labels,
            missing=missing,
        )  # fmt: skip
        X, feature_names = found.X, found.names
        notes += found.notes
    if folder_labels is not None:
        notes += folder_labels.notes
        if not len(folder_labels.names):
            notes.append("no node has a known label")
    return FitFiles(
        folder, folder.n_nodes, folder.n_entries // 2, X, feature_names, encoded, notes, folder.ids
    )


def _read_kinds(
    given: Sequence[Path], column: str | None, *columns_of_links: Any
) -> LinksOfKinds | None:
    """Return links of several kinds: those of several tables, or of one with a column of kinds."""
    if len(given) < 2 and column is None:
        return None
    if len(given) > 1 and column is not None:
        raise InputError(
            "several EDGES are one kind of links each, and --edge-type names a column with the "
            "kinds of a single table: omit it, or give one table"
        )
    for path in given:
        if _is_partitioned(path) or is_graph_folder(path):
            raise InputError(
                f"{path} is a folder with links of one kind: give it alone, without --edge-type"
            )
        if recognise(path) != "table":
            raise InputError(
                f"{path} is not a table of links: kinds of links are told apart by the column "
                "--edge-type of a table, or as several tables"
            )
    if column is None:
        return kinds_by_file(given, *columns_of_links)
    if not given:
        raise InputError("--edge-type names a column of EDGES, which must be a table of links")
    return kinds_by_column(given[0], column, *columns_of_links)


def _refuse_in_folders(edges: Path, nodes: Path | None, repeated: str) -> None:
    """Refuse what is done in memory only."""
    if nodes is not None:
        raise InputError(
            f"--nodes is for graphs that fit into memory, and {edges} is a folder: give tables of "
            "numbers and of labels, --features and --labels"
        )
    if repeated != "max":
        raise InputError(
            f"--repeated {repeated} is for a single table of links, and {edges} is a folder: sum "
            "them before they are converted"
        )


def _parse_knn(
    knn: str,
    edges: Path | None,
    features: Path | None,
    source: str | None,
    target: str | None,
    weight: str | None,
) -> KnnGraph:
    """Return the graph to make of the features."""
    if edges is not None:
        raise InputError(f"--knn makes the links of the features: omit it, or omit {edges}")
    if features is None:
        raise InputError("--knn links nodes by their features: give --features or --nodes FILE")
    if not source is target is weight is None:
        raise InputError("--knn reads no links: omit --source, --target and --weight-column")
    if knn != "auto" and not (knn.isdecimal() and int(knn) > 0):
        raise InputError(f"--knn must be a number of neighbours or auto, got {knn!r}")
    return KnnGraph(None if knn == "auto" else int(knn))


def _is_partitioned(edges: Path) -> bool:
    """Tell whether this is a folder of Parquet files with links."""
    return edges.is_dir() and not is_graph_folder(edges) and any(edges.glob("*.parquet"))


def _converted(
    edges: Path,
    out: Path,
    source: str | None,
    target: str | None,
    weight: str | None,
    jobs: int | None,
    show: bool,
    notes: list[str],
) -> Path:
    """Return a graph folder beside OUT with the links of these files."""
    folder = out.with_name(f"{out.name}-graph")
    if is_graph_folder(folder):
        raise InputError(
            f"{edges} would be converted to {folder}, which already exists: give that folder "
            "instead of the links, or remove it"
        )
    with StageLine(enabled=show) as line:
        convert(edges, folder, source=source, target=target, weight=weight, threads=jobs,
                progress=line, note=notes.append)  # fmt: skip
    notes.append(f"the links were converted to {folder}; later fits can start from there")
    return folder
