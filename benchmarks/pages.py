"""The report's map and the app's refits, measured: bytes, frames of panning, seconds.

Planted graphs are fitted; their reports are opened in Chromium (the one in PATH, or the one that
NODEPROOF_CHROMIUM names), where the map is panned and drawn once per frame, all nodes in view and
close by. With ``--refits``, a session of the labelling app is given labels, and fits again.

    python benchmarks/pages.py --nodes 3000,100000
    python benchmarks/pages.py --refits 30000

Needs nodeproof[app,report] and playwright.
"""

from __future__ import annotations

import argparse
import queue
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from nodeproof import NodeClassifier
from nodeproof.app.journal import Journal
from nodeproof.app.session import Session
from nodeproof.datasets import make_planted

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
from browser_helpers import FLAGS, find_chromium

CLASSES, DEGREE, FRAMES = 5, 8, 60

PAN = """async ([frames, step]) => {
  const next = () => new Promise(requestAnimationFrame);
  const between = [], painted = [];
  let last = await next();
  for (let k = 0; k < frames; k += 1) {
    nodeMap.pan(k % 20 < 10 ? step : -step, 0);
    const now = await next();
    between.push(now - last);
    painted.push(nodeMap.lastFrame);
    last = now;
  }
  return [between, painted];
}"""


def fitted(n: int) -> NodeClassifier:
    """Return a fit to planted data with some wrong labels; one expert, since fits are not meant."""
    size = n // CLASSES
    p = 0.75 * DEGREE / size
    data = make_planted(CLASSES, size, p=p, q=0.25 * DEGREE / (n - size), omega=0.2,
                        label_ratio=0.02 if n > 10_000 else 0.1, label_accuracy=0.85,
                        random_state=0)  # fmt: skip
    clf = NodeClassifier(random_state=0, experts=["propagation"])
    return clf.fit(data.X, data.y, graph=data.graph)


def measure_page(n: int) -> None:
    """Print the size of a report on n nodes, and how long frames of its map take."""
    from playwright.sync_api import sync_playwright

    clf = fitted(n)
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        page_file = Path(folder, "report.html")
        began = time.perf_counter()
        clf.report(page_file)
        written = time.perf_counter() - began
        print(f"{n:,} nodes: {page_file.stat().st_size / 1e6:.2f} MB, written in {written:.1f} s")
        browser = playwright.chromium.launch(executable_path=find_chromium(), args=FLAGS)
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        began = time.perf_counter()
        page.goto(page_file.as_uri())
        print(f"  loaded in {time.perf_counter() - began:.2f} s")
        for name, zoom in (("all in view", 1), ("zoomed in 8 times", 8)):
            page.evaluate("factor => { nodeMap.fit(); nodeMap.zoom(factor); }", zoom)
            page.evaluate(PAN, [10, 5])  # compiled by now
            whole, painted = map(np.array, page.evaluate(PAN, [FRAMES, 5]))
            print(f"  {name}: a frame of panning {np.median(whole):.0f} ms "
                  f"(95 % below {np.quantile(whole, 0.95):.0f} ms), "
                  f"of which drawing {np.median(painted):.0f} ms")  # fmt: skip
        browser.close()


def measure_refits(n: int) -> None:
    """Print how long the app takes to fit again after ten and after forty labels."""
    size = n // CLASSES
    data = make_planted(CLASSES, size, p=0.75 * DEGREE / size, q=0.25 * DEGREE / (n - size),
                        omega=0.2, label_ratio=0.03, label_accuracy=0.85,
                        random_state=0)  # fmt: skip
    began = time.perf_counter()
    clf = NodeClassifier(random_state=0).fit(data.X, data.y, graph=data.graph)
    print(f"{n:,} nodes, {data.graph.nnz // 2:,} links: fitted in "
          f"{time.perf_counter() - began:.1f} s, accuracy "
          f"{(clf.labels_ == data.y_true).mean():.4f}")  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        session = Session(clf.fitted_, Journal(Path(folder, "labels.jsonl")), None)
        for count in (10, 40):
            rows = [*session.state("")["suspects"], *session.state("")["asked"]][:count]
            truth = [int(data.y_true[row]) for row in rows]
            session.label(rows, truth, "label", "benchmark")
            ended: queue.SimpleQueue = queue.SimpleQueue()
            began, spent = time.perf_counter(), time.process_time()
            session.refit(ended.put)
            finish = ended.get()
            took, spent = time.perf_counter() - began, time.process_time() - spent
            finish()
            ended.get()()  # what to ask for next
            accuracy = (session.fitted.codes == data.y_true).mean()
            print(f"  refit after {len(rows)} labels: {took:.2f} s ({spent:.2f} s of CPU), "
                  f"accuracy {accuracy:.4f}")  # fmt: skip
        session.close()


def main() -> None:
    """Measure what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nodes", default="", help="sizes of graphs for pages, with commas")
    parser.add_argument("--refits", default="", help="sizes of graphs for refits, with commas")
    given = parser.parse_args()
    if not (given.nodes or given.refits):
        given.nodes, given.refits = "3000,100000", "30000"
    for n in filter(None, given.nodes.split(",")):
        measure_page(int(float(n)))
    for n in filter(None, given.refits.split(",")):
        measure_refits(int(float(n)))


if __name__ == "__main__":
    main()
