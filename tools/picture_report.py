"""Draw docs/img/report.png and docs/img/app.png: report and app on Cora as a browser shows them.

Needs the data set (`nodeproof data get cora`, or NODEPROOF_DATA), Playwright and Chromium.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from playwright.sync_api import sync_playwright

from nodeproof import NodeClassifier, datasets

TOPICS = np.array(
    [
        *("Theory", "Reinforcement learning", "Genetic algorithms", "Neural networks"),
        *("Probabilistic methods", "Case-based", "Rule learning"),
    ]
)
IMAGES = Path(__file__).parents[1] / "docs" / "img"


def main() -> None:
    """Fit, and photograph the upper part of the report, and the app."""
    cora = datasets.load("cora")
    y = cora.training_labels()
    topics = np.where(y >= 0, TOPICS[y], "")
    clf = NodeClassifier(random_state=0).fit(cora.X, topics, graph=cora.graph)
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as running:
        page_file = Path(folder, "report.html")
        clf.report(page_file, title="Cora: 2,708 papers on seven topics")
        clf.save(Path(folder, "model.npz"))
        browser = running.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"]
        )
        page = browser.new_page(viewport={"width": 1280, "height": 1560})
        page.goto(page_file.as_uri())
        page.locator("#doubtful").click()
        page.evaluate("scrollTo(0, 0)")
        page.wait_for_timeout(500)
        page.screenshot(path=IMAGES / "report.png")
        serve = [sys.executable, "-m", "nodeproof", "label", folder, "--no-browser", "--json"]
        with subprocess.Popen(serve, stdout=subprocess.PIPE, text=True) as app:
            assert app.stdout is not None
            told = ""
            while not told.rstrip().endswith("}"):
                told += app.stdout.readline()
            page = browser.new_page(viewport={"width": 1280, "height": 900})
            page.goto(json.loads(told)["address"])
            page.locator("#choices button").first.wait_for()
            page.wait_for_timeout(2000)
            page.screenshot(path=IMAGES / "app.png")
            app.terminate()
        browser.close()


if __name__ == "__main__":
    sys.exit(main())
