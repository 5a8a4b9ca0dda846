"""Write the reports on real graphs that the page "A live report" shows."""

from __future__ import annotations

import tempfile
from functools import cache
from pathlib import Path
from typing import Any


# --8<-- [start:fits]
def digits(path: Path) -> None:
    """Report on handwritten digits: 100 labels, and no links given."""
    import numpy as np
    from sklearn.datasets import load_digits

    from nodeproof import NodeClassifier

    names = np.array(
        ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]
    )
    images = load_digits()
    rng = np.random.default_rng(0)
    some = rng.choice(1797, 100, replace=False)
    y = np.full(1797, "", dtype=object)
    y[some] = names[images.target[some]]
    clf = NodeClassifier(random_state=0).fit(images.data, y, graph="knn")
    clf.report(path, title="1,797 handwritten digits")


# --8<-- [end:fits]
def karate(path: Path) -> None:
    """Report on Zachary's karate club, one label for each of its two sides."""
    import networkx as nx

    from nodeproof import NodeClassifier

    club = nx.karate_club_graph()
    clf = NodeClassifier(random_state=0).fit(y={0: "Mr. Hi", 33: "Officer"}, graph=club)
    clf.certify(time_budget=3)
    clf.report(path, title="Zachary's karate club")


REPORTS = {"digits": digits, "karate": karate}


@cache
def written(name: str) -> bytes:
    """Return a report's page; while pages are served, it is written once."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "report.html")
        REPORTS[name](path)
        return path.read_bytes()


def on_files(files: Any, config: Any, **_: Any) -> Any:
    """Add the reports to the site, as pages of their own."""
    from mkdocs.structure.files import File

    for name in REPORTS:
        files.append(File.generated(config, f"live/{name}.html", content=written(name)))
    return files
