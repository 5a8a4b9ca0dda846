"""nodeproof beside its peers on real data: accuracy, calibration, coverage, time and memory.

Runs every method on the same splits of every set, by several protocols, each fit in a fresh
process, and writes tables (results.md, .csv, .json) and pictures of accuracy over time. What is
finished is kept: the same command continues where it was interrupted. See benchmarks/README.md.

    python benchmarks/real.py --data FOLDER [--protocol graph] [--sets cora] [--methods GCN]
    python benchmarks/real.py --data FOLDER --versus GCN    # seconds of both, and their ratio
"""

from __future__ import annotations

import argparse
import os
import sys
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from unicodedata import normalize

from nodeproof.errors import InputError
from nodeproof.storage.journal import JOURNAL, Journal, Record
from peers import PEERS
from peers.cells import Cell, run_cell
from peers.page import write_docs
from peers.protocols import PROTOCOLS, Protocol
from peers.report import Result, markdown, speed_table, write_report
from peers.sets import BUILT_IN, GraphSet, find_sets, read_set

INSTALL = "pip install -r benchmarks/requirements-peers.txt"

#: sets with more nodes are left out by --quick
QUICK_NODES = 5_000

#: what --versus compares by: links, features, and both, 20 labels per class; on larger sets
SPEED_PROTOCOLS, SPEED_NODES = ("20-per-class", "graph", "20-features"), 1_000


def main() -> None:
    options = parse()
    try:
        cells = plan(options)
        options.out.mkdir(parents=True, exist_ok=True)
        run(cells, options.out, options.fresh, options.docs, options.versus)
    except InputError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--data", type=Path, default=os.environ.get("NODEPROOF_DATA"), metavar="FOLDER",
        help="where the graphs are, one .npz each (default: $NODEPROOF_DATA)")  # fmt: skip
    add("--sets", nargs="+", metavar="NAME",
        help="files to take, without .npz, and tables of scikit-learn: "
        f"{', '.join(BUILT_IN)} (default: all)")  # fmt: skip
    add("--protocol", nargs="+", choices=list(PROTOCOLS), metavar="NAME",
        help=f"{', '.join(PROTOCOLS)} (default: all that a set allows)")  # fmt: skip
    add("--methods", nargs="+", metavar="NAME", help="default: all (see --list); s2gc+lr will do")
    add("--versus", metavar="NAME",
        help="compare the seconds of nodeproof with those of this method, on sets of more than "
        f"{SPEED_NODES} nodes, with each choice of sources (one split)")  # fmt: skip
    add("--splits", type=int, metavar="N",
        help="random or published splits, or seeds on a single published one (default: 5; all that "
        "were published; 20 of features alone)")  # fmt: skip
    add("--flip", type=float, default=0.0, metavar="SHARE",
        help="turn this share of the training labels into other classes")  # fmt: skip
    add("--no-validation", action="store_true", help="hide the validation labels from all methods")
    add("--quick", action="store_true",
        help="one split, small sets, and methods that take seconds")  # fmt: skip
    add("--out", type=Path, default=Path("build/real"), metavar="DIR",
        help="where the results go (default: build/real)")  # fmt: skip
    add("--docs", type=Path, metavar="PAGE",
        help="also write the tables into this page, between its two comments")  # fmt: skip
    add("--fresh", action="store_true", help="discard what is finished")
    add("--threads", type=int, default=2, metavar="N", help="threads of every fit (default: 2)")
    add("--limit", type=float, default=120.0, metavar="SECONDS",
        help="stop training a network then; its best epoch counts (default: 120)")  # fmt: skip
    add("--list", action="store_true", help="list the methods and exit")
    return parser.parse_args(arguments)


def plan(options: argparse.Namespace) -> list[Cell]:
    """Return the cells that are asked for: all methods on a split, then the next split."""
    if options.list:
        print("\n".join(PEERS))
        sys.exit()
    if options.splits is not None and options.splits < 1:
        raise InputError(f"--splits must be at least 1: got {options.splits}")
    if not 0 <= options.flip < 1:
        raise InputError(f"--flip must be at least 0 and less than 1: got {options.flip}")
    sources = choose_sets(options.data, options.sets)
    if options.versus:
        options.methods = options.methods or ["nodeproof", options.versus]
        options.protocol = options.protocol or SPEED_PROTOCOLS
        options.splits = options.splits or 1
        options.versus = choose_methods([options.versus], quick=False)[0]
    methods = choose_methods(options.methods, options.quick)
    usual = [name for name, protocol in PROTOCOLS.items() if protocol.usual]
    protocols = [PROTOCOLS[name] for name in dict.fromkeys(options.protocol or usual)]
    cells = []
    for source in sources:
        graph_set = read_set(source)
        for protocol in protocols:
            cells += plan_set(source, graph_set, protocol, methods, options)
    if not cells:
        raise InputError("no method can run on these sets by these protocols")
    order = [protocol.name for protocol in protocols]
    return sorted(cells, key=lambda cell: order.index(cell.protocol))


def plan_set(
    source: str,
    graph_set: GraphSet,
    protocol: Protocol,
    methods: list[str],
    options: argparse.Namespace,
) -> list[Cell]:
    """Return the cells of one set by one protocol: none if the set does not allow it."""
    too_large = options.quick and not options.sets and len(graph_set.y) > QUICK_NODES
    too_small = options.versus and not options.sets and len(graph_set.y) <= SPEED_NODES
    if too_large or too_small or not protocol.allows(graph_set):
        return []
    data = protocol.given(graph_set).data
    validation = protocol.validation and not options.no_validation
    given = {"links": data.graph is not None, "features": data.X is not None}
    able = [
        name
        for name in methods
        if options.versus or PEERS[name].can_use(**given, validation=validation)
    ]
    return [
        Cell(
            source=source,
            protocol=protocol.name,
            method=method,
            number=number,
            flip=options.flip,
            validation=validation,
            threads=options.threads,
            limit=options.limit,
        )
        for number in protocol.numbers(graph_set, options.splits or (1 if options.quick else None))
        for method in able
    ]


def choose_sets(folder: Path | None, names: list[str] | None) -> list[str]:
    """Return the sources of the sets that are asked for."""
    found = find_sets(Path(folder) if folder else None)
    wanted = names or list(found)
    if folder is None and not (names and set(names) <= set(BUILT_IN)):
        raise InputError("where are the graphs? Give --data FOLDER or set NODEPROOF_DATA")
    if not names and set(found) == set(BUILT_IN):
        raise InputError(
            f"there is no .npz file in {folder}; benchmarks/README.md says what it holds"
        )
    unknown = [name for name in wanted if name not in found]
    if unknown:
        raise InputError(f"no set {unknown[0]!r} in {folder}; there are: {', '.join(found)}")
    return [found[name] for name in wanted]


def choose_methods(names: list[str] | None, quick: bool) -> list[str]:
    """Return the methods that are asked for, or all that can run here."""
    known = {plain(name): name for name in PEERS}
    unknown = [name for name in names or [] if plain(name) not in known]
    if unknown:
        raise InputError(f"no method {unknown[0]!r}; there are: {', '.join(PEERS)}")
    if names:
        chosen = list(dict.fromkeys(known[plain(name)] for name in names))
    else:
        chosen = [name for name, peer in PEERS.items() if peer.quick or not quick]
    reasons = {name: why_not(PEERS[name].needs) for name in chosen}
    for reason in {reason for reason in reasons.values() if reason}:
        left_out = [name for name in chosen if reasons[name] == reason]
        if names:
            raise InputError(f"cannot run {', '.join(left_out)}: {reason}")
        print(f"left out {', '.join(left_out)}: {reason}", file=sys.stderr)
    return [name for name in chosen if not reasons[name]]


def plain(name: str) -> str:
    """Return a name as it may be typed: "s2gc+lr" for "S²GC + LR"."""
    return "".join(letter for letter in normalize("NFKC", name).lower() if letter.isalnum())


def why_not(package: str | None) -> str | None:
    """Return why methods that need a package cannot run here."""
    if package is None:
        return None
    needed = ("torch", "torch_geometric") if package == "torch" else (package,)
    for name in needed:
        if find_spec(name) is None:
            return f"{name} is not installed; run: {INSTALL}"
    return cuda_build() if package == "torch" else None


def cuda_build() -> str | None:
    """Return a complaint about a torch that was built for CUDA: times would not be the CPU's."""
    import torch

    if torch.version.cuda is None:
        return None
    return (
        f"torch {torch.__version__} is built for CUDA {torch.version.cuda}, and all methods are "
        "compared on the CPU; install its CPU build (benchmarks/README.md says how)"
    )


def run(
    cells: list[Cell],
    out: Path,
    fresh: bool,
    docs: Path | None = None,
    versus: str | None = None,
) -> None:
    """Run what is not finished, then write the report; on Ctrl-C, that of what is done."""
    with Journal(out / JOURNAL, fresh) as journal:
        missing = journal.missing(cells)
        print(f"{len(cells) - len(missing)} of {len(cells)} fits are finished", file=sys.stderr)
        number = count(1)

        def finished(cell: Cell, record: Record) -> None:
            print(f"{next(number)}/{len(missing)}  {describe(cell, record)}", file=sys.stderr)

        try:
            journal.run(missing, run_cell, finished=finished)
        except KeyboardInterrupt:
            print("interrupted; the same command continues from here", file=sys.stderr)
            report(cells, journal.records, out, versus=versus)
            sys.exit(130)
        report(cells, journal.records, out, docs, versus)


def describe(cell: Cell, record: Record) -> str:
    head = f"{cell.protocol:12} {cell.set_name:18} {cell.number:3}  {cell.method:25} "
    if "error" in record:
        return f"{head}failed: {record['error']}"
    return (
        f"{head}{100 * record['accuracy']:5.1f} %  ECE {record['ece']:.3f}  "
        f"log-loss {record['log_loss']:6.3f}  {record['seconds']:7.2f} s  "
        f"{record['peak_mb']:6.0f} MB  {'; '.join(record['notes'])}"
    )


def report(
    cells: list[Cell],
    records: dict[str, Record],
    out: Path,
    docs: Path | None = None,
    versus: str | None = None,
) -> None:
    results: list[Result] = [(c, records[c.key]) for c in cells if c.key in records]
    if not results:
        return
    write_report(results, out)
    print(speed_table(results, versus) if versus else markdown(results))
    print(f"written to {out}", file=sys.stderr)
    if docs:
        write_docs(results, docs)
        print(f"written into {docs}", file=sys.stderr)


if __name__ == "__main__":
    main()
