"""The page: what the template shows, in its words and numbers."""

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
from nodeproof.report import charts, nodes, sections, wording
from nodeproof.report.subject import Subject, reliability_of
from nodeproof.storage.atomic import atomic_path

if TYPE_CHECKING:
    from nodeproof.certificate import Certificate
    from nodeproof.fitted import Fitted

__all__ = ["check_jinja", "render_report", "write_report"]

# In a script element these could end it, or the line.
_UNSAFE = {ord(c): f"\\u{ord(c):04x}" for c in "<>&\u2028\u2029"}


def write_report(
    fitted: Fitted,
    path: str | PathLike[str],
    *,
    certificate: Certificate | None = None,
    y_true: Any = None,
    title: str = "",
) -> None:
    """Write the report on a fitted classifier; the file appears only when it is complete.

    Parameters
    ----------
    fitted : Fitted
        In this process, or loaded from a file.
    path : path
        The file to write.
    certificate, y_true, title
        As in :meth:`nodeproof.NodeClassifier.report`.
    """
    text = render_report(fitted, certificate=certificate, y_true=y_true, title=title)
    with atomic_path(path) as temporary:
        Path(temporary).write_text(text, encoding="utf-8")


def render_report(
    fitted: Fitted,
    *,
    certificate: Certificate | None = None,
    y_true: Any = None,
    title: str = "",
) -> str:
    """Return the report on a fitted classifier as HTML."""
    template = _template()
    subject = Subject.of(fitted, certificate)
    truth = sections.judged_nodes(subject, y_true)
    reliability = reliability_of(truth)
    style, script = _file("page.css"), _file("page.js")
    return str(
        template.render(
            title=title or f"{subject.n:,} nodes in {wording.classes(subject.K)}",
            summary=wording.summary(subject),
            tiles=sections.tiles(subject, certificate),
            classes=sections.class_rows(subject),
            colours=charts.colours(subject.K),
            confusion=sections.confusion(subject),
            blocks=sections.block_matrix(subject),
            drawing=charts.drawing(subject),
            map=charts.node_map(subject),
            reliability=reliability and charts.reliability(reliability),
            confidence=charts.confidence(subject),
            reliable=wording.reliability(reliability, truth, subject),
            sources=nodes.sources(subject),
            suspects=nodes.suspects(subject),
            certificate=sections.verdict(certificate),
            history=charts.history(fitted.history.get("change", []), fitted.settings.tol),
            settings=sections.settings(subject),
            versions=sections.versions(),
            notes=subject.findings.notes,
            command=subject.findings.command,
            python=wording.python_call(subject),
            subject=subject,
            version=__version__,
            style=style,
            script=script,
            script_hash=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
            data=json.dumps(nodes.node_data(subject), separators=(",", ":")).translate(_UNSAFE),
        )
    )


def check_jinja() -> Any:
    """Return the package that fills templates; raise an error that says how to install it."""
    try:
        import jinja2
    except ImportError:
        raise MissingExtraError("jinja2", "report") from None
    return jinja2


def _template() -> Any:
    jinja2 = check_jinja()
    environment = jinja2.Environment(
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
        loader=jinja2.FunctionLoader(_file),
    )
    environment.filters["percent"] = wording.percent
    environment.filters["number"] = lambda value: f"{value:,}"
    environment.filters["short"] = lambda value: f"{value:.3g}"
    environment.globals["max"] = np.maximum.reduce
    return environment.get_template("page.html")


def _file(name: str) -> str:
    return resources.files(__package__).joinpath(name).read_text(encoding="utf-8")
