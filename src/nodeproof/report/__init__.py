"""HTML report on a fit: the data, the results, and how far to trust them.

The page is self-contained: pictures are SVG, the script is small, nothing is fetched, and all
external text, such as names, is escaped. `NodeClassifier.report` writes it. May import `fitting`
and what is below it, but not the estimator.
"""

from nodeproof.findings import Findings
from nodeproof.report.page import write_report

__all__ = ["Findings", "write_report"]
