"""The page: renders the template with its texts, tables and charts."""

from __future__ import annotations

import base64
import hashlib
import json
from importlib import resources
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from nodeproof import __version__
from nodeproof.errors import MissingExtraError
from nodeproof.report import charts, experts, map_data, nodes, sections, sets, wording
from nodeproof.report.data import ReportData, reliability_of
from nodeproof.storage.atomic import atomic_path

if TYPE_CHECKING:
    from nodeproof.certificate import Certificate
    from nodeproof.fitted import Fitted

__all__ = ["check_jinja", "page_file", "page_template", "render_report", "write_report"]

# In the order in which they use each other.
_SCRIPTS = ("node_map.js", "explore.js", "page.js")

# Characters that could end a script element or a line in it.
_UNSAFE = {ord(c): f"\\u{ord(c):04x}" for c in "<>&\u2028\u2029"}


def write_report(
    fitted: Fitted,
    path: str | PathLike[str],
    *,
    certificate: Certificate | None = None,
    y_true: Any = None,
    title: str = "",
    coverage: float | None = None,
) -> None:
    """Write the report on a fitted classifier; the file appears only when it is complete.

    Parameters
    ----------
    fitted : Fitted
        Just fitted, or loaded from a file.
    path : path
        The file to write.
    certificate, y_true, title
        As in :meth:`nodeproof.NodeClassifier.report`.
    coverage : float, optional
        Of prediction sets that were asked for, shown beside usual ones.
    """
    text = render_report(
        fitted, certificate=certificate, y_true=y_true, title=title, coverage=coverage
    )
    with atomic_path(path) as temporary:
        Path(temporary).write_text(text, encoding="utf-8")


def render_report(
    fitted: Fitted,
    *,
    certificate: Certificate | None = None,
    y_true: Any = None,
    title: str = "",
    coverage: float | None = None,
) -> str:
    """Return the report on a fitted classifier as HTML."""
    template = page_template()
    report = ReportData.of(fitted, certificate)
    truth = sections.judged_nodes(report, y_true)
    reliability, curve = reliability_of(truth), reliability_of(truth, "quantile")
    accuracy = sections.accuracy_section(report, truth)
    atlas = map_data.page_map(report)
    style, script = page_file("page.css"), "\n".join(map(page_file, _SCRIPTS))
    return str(
        template.render(
            title=title or f"{report.n:,} nodes in {wording.classes(report.K)}",
            summary=wording.summary(report),
            tiles=sections.tiles(report, certificate, accuracy["scores"] if accuracy else ()),
            classes=sections.class_rows(report),
            accuracy=accuracy,
            sets=sets.set_rows(fitted, coverage),
            experts=experts.expert_table(fitted.choices),
            colours=charts.colours(report.K),
            confusion=sections.confusion(report),
            blocks=sections.block_matrix(report),
            drawing=charts.drawing(report),
            map=atlas,
            reliability=curve and charts.reliability(curve),
            error=reliability and reliability.error,
            confidence=charts.confidence(report),
            reliable=wording.reliability(reliability, truth, report),
            sources=nodes.sources(report),
            suspects=nodes.suspects(report),
            certificate=sections.verdict(report),
            history=charts.history(fitted.history.get("change", []), fitted.settings.tol),
            settings=sections.settings(report),
            versions=sections.versions(),
            notes=list(dict.fromkeys([*report.findings.notes, *experts.caveats(fitted)])),
            command=report.findings.command,
            python=wording.python_call(report),
            report=report,
            version=__version__,
            style=style,
            script=script,
            script_hash=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
            data=_as_json(nodes.node_data(report) | {"atlas": atlas}),
        )
    )


def _as_json(value: Any) -> str:
    """Return JSON that may stand in a script element."""
    return json.dumps(value, separators=(",", ":")).translate(_UNSAFE)


def check_jinja() -> Any:
    """Return the package that fills templates; raise an error that says how to install it."""
    try:
        import jinja2
    except ImportError:
        raise MissingExtraError("jinja2", "report") from None
    return jinja2


def page_template(name: str = "page.html") -> Any:
    """Return a template with its filters."""
    jinja2 = check_jinja()
    environment = jinja2.Environment(
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
        loader=jinja2.FunctionLoader(page_file),
    )
    environment.filters["percent"] = wording.percent
    environment.filters["number"] = lambda value: f"{value:,}"
    environment.filters["short"] = lambda value: f"{value:.3g}"
    environment.globals["max"] = np.maximum.reduce
    return environment.get_template(name)


def page_file(name: str) -> str:
    """Return a file of this package."""
    return resources.files(__package__).joinpath(name).read_text(encoding="utf-8")
