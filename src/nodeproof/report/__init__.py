"""One HTML page that shows what was given to a fit and what was found.

It is self-contained: pictures are SVG, the script is small, nothing is fetched. Whatever came from
outside, names above all, is escaped. `NodeClassifier.report` writes it. May import `fitting` and
what is below it; not the estimator, whose fit it is given.
"""

from nodeproof.findings import Findings
from nodeproof.report.page import write_report

__all__ = ["Findings", "write_report"]
