"""nodeproof beside its peers on real graphs: accuracy, log-loss, calibration, time and memory.

Runs every method on the same splits of every graph in a folder, each fit in a fresh process,
and writes tables (results.md, .csv, .json) and a picture of accuracy over time. What is finished
is kept: the same command continues where it was interrupted. See benchmarks/README.md.

    python benchmarks/real.py --data FOLDER [--sets cora] [--methods nodeproof GCN] [--quick]
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
from peers.report import Result, markdown, paired, summarise, write_report
from peers.sets import find_sets, read_set

INSTALL = "pip install -r benchmarks/requirements-peers.txt"

#: sets with more nodes are left out by --quick
QUICK_NODES = 5_000


def main() -> None:
    options = parse()
    try:
        cells = plan(options)
        options.out.mkdir(parents=True, exist_ok=True)
        run(cells, options.out, options.fresh)
    except InputError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--data", type=Path, default=os.environ.get("NODEPROOF_DATA"), metavar="FOLDER",
        help="where the graphs are, one .npz each (default: $NODEPROOF_DATA)")  # fmt: skip
    add("--sets", nargs="+", metavar="NAME", help="files to take, without .npz (default: all)")
    add("--methods", nargs="+", metavar="NAME", help="default: all (see --list); s2gc+lr will do")
    add("--splits", type=int, metavar="N",
        help="random splits, or seeds on a public split (default: 5)")  # fmt: skip
    add("--random", action="store_true", help="random splits also where there is a public one")
    add("--flip", type=float, default=0.0, metavar="SHARE",
        help="turn this share of the training labels into other classes")  # fmt: skip
    add("--no-validation", action="store_true", help="hide the validation labels from all methods")
    add("--quick", action="store_true",
        help="one split, small sets, and methods that take seconds")  # fmt: skip
    add("--out", type=Path, default=Path("build/real"), metavar="DIR",
        help="where the results go (default: build/real)")  # fmt: skip
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
    paths = choose_sets(options.data, options.sets)
    methods = choose_methods(options.methods, options.quick)
    n_splits = options.splits or (1 if options.quick else 5)
    cells = []
    for path in paths:
        graph_set = read_set(path)
        if options.quick and not options.sets and len(graph_set.y) > QUICK_NODES:
            continue
        cells += [
            Cell(
                path=str(path.resolve()),
                method=method,
                number=number,
                random=options.random or graph_set.public is None,
                flip=options.flip,
                validation=not options.no_validation,
                threads=options.threads,
                limit=options.limit,
            )
            for number in range(n_splits)
            for method in methods
        ]
    return cells


def choose_sets(folder: Path | None, names: list[str] | None) -> list[Path]:
    """Return the files of the sets that are asked for."""
    if folder is None:
        raise InputError("where are the graphs? Give --data FOLDER or set NODEPROOF_DATA")
    found = find_sets(Path(folder))
    if not found:
        raise InputError(
            f"there is no .npz file in {folder}; benchmarks/README.md says what it holds"
        )
    unknown = [name for name in names or [] if name not in found]
    if unknown:
        raise InputError(f"no set {unknown[0]!r} in {folder}; there are: {', '.join(found)}")
    return [found[name] for name in names or found]


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


def run(cells: list[Cell], out: Path, fresh: bool) -> None:
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
            report(cells, journal.records, out)
            sys.exit(130)
        report(cells, journal.records, out)


def describe(cell: Cell, record: Record) -> str:
    head = f"{cell.set_name:14} {cell.number:3}  {cell.method:27} "
    if "error" in record:
        return f"{head}failed: {record['error']}"
    return (
        f"{head}{100 * record['accuracy']:5.1f} %  log-loss {record['log_loss']:6.3f}  "
        f"{record['seconds']:7.2f} s  {record['peak_mb']:6.0f} MB  {'; '.join(record['notes'])}"
    )


def report(cells: list[Cell], records: dict[str, Record], out: Path) -> None:
    results: list[Result] = [(c, records[c.key]) for c in cells if c.key in records]
    if not results:
        return
    write_report(results, out)
    print(markdown(results, summarise(results), paired(results, ("accuracy", "log_loss"))))
    print(f"written to {out}", file=sys.stderr)


if __name__ == "__main__":
    main()
