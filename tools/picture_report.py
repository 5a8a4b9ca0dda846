"""Draw docs/img/report.png: the report on Cora as a browser shows it.

Needs the data set (`nodeproof data get cora`, or NODEPROOF_DATA), Playwright and Chromium.
"""

from __future__ import annotations

import shutil
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
OUT = Path(__file__).parents[1] / "docs" / "img" / "report.png"


def main() -> None:
    """Fit, write the report to a temporary folder, and photograph its upper part."""
    cora = datasets.load("cora")
    y = cora.training_labels()
    topics = np.where(y >= 0, TOPICS[y], "")
    clf = NodeClassifier(random_state=0).fit(cora.X, topics, graph=cora.graph)
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as running:
        page_file = Path(folder, "report.html")
        clf.report(page_file, title="Cora: 2,708 papers on seven topics")
        browser = running.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"]
        )
        page = browser.new_page(viewport={"width": 1180, "height": 1490})
        page.goto(page_file.as_uri())
        page.locator("#doubtful").click()
        page.screenshot(path=OUT)
        browser.close()


if __name__ == "__main__":
    sys.exit(main())
