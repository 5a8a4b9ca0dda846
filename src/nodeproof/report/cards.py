"""What a notebook shows of a fitted classifier and of a certificate: a small card of HTML.

Colours are those of the page, thinned out, so that a card is at home on light and on dark. Whatever
comes from data is escaped.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from nodeproof.certificate import Certificate
    from nodeproof.estimator import NodeClassifier

__all__ = ["certificate_card", "classifier_card"]

# Classes, suspects and letters of a name that there is room for.
_CLASSES, _SUSPECTS, _LETTERS = 8, 3, 40

_CARD = (
    "font:14px/1.45 system-ui,sans-serif;color:inherit;max-width:44em;padding:.8em 1.1em;"
    "border:1px solid rgba(128,128,128,.4);border-radius:8px;background:rgba(128,128,128,.06)"
)
_HEAD = "display:flex;justify-content:space-between;gap:1em;align-items:baseline;flex-wrap:wrap"
_PILL = "border-radius:1em;padding:0 .7em;font-size:.85em;white-space:nowrap;border:1px solid "
_TABLE = "border-collapse:collapse;font:inherit;color:inherit;margin:"
_TRACK = "background:rgba(128,128,128,.22);border-radius:3px;overflow:hidden;height:"
_COLUMNS = "grid-template-columns:minmax(4em,30%) 1fr minmax(3em,7em)"
_ROW = f"display:grid;{_COLUMNS};gap:.8em;align-items:center"
_CLIP = "overflow:hidden;text-overflow:ellipsis;white-space:nowrap"
_QUIET = "opacity:.75;font-size:.9em"
_CELL = "text-align:left;vertical-align:top;padding:.15em .8em .15em 0;background:none"

# Mid-tones: seen on light and on dark.
_BLUE, _GREEN, _AMBER, _GREY = "#3d84b8", "#3f9a6b", "#c98a2b", "#8a8f98"
_SOURCES = {"graph": _BLUE, "features": _AMBER, "labels": _GREEN}


def classifier_card(clf: NodeClassifier) -> str:
    """Return a fitted classifier as HTML: what was given, what was found, and how sure it is."""
    colour = _GREEN if clf.status_ == "converged" else _AMBER
    parts = [
        _head(type(clf).__name__, clf.status_, colour),
        f'<div style="margin:.3em 0 .7em">{_given(clf)}</div>',
        *_sizes(clf),
        *_shares(clf),
        *_accuracy(clf),
        *_suspects(clf),
        _choices(clf),
    ]
    return _card("fitted node classifier", parts)


def certificate_card(proof: Certificate) -> str:
    """Return a certificate as HTML: what it says, the gap, and how many nodes are certain."""
    applies = proof.status != "not applicable"
    colour = _GREEN if proof.certified else _AMBER if applies else _GREY
    parts = [
        _head("Certificate", proof.status, colour),
        f'<div style="margin:.4em 0 .7em">{escape(proof.explain())}</div>',
    ]
    if applies:
        n, sure = len(proof.labels), int(proof.certified_nodes.sum())
        parts += [
            _bar("certain nodes", sure / max(n, 1), f"{sure:,} of {n:,}", _GREEN),
            f'<table style="{_TABLE}.7em 0 0">',
            _line("objective", _number(proof.objective)),
            _line("no labelling is below", _number(proof.lower_bound)),
            _line("gap", f"{100 * proof.gap:.3g} %" if proof.gap < 1 else "more than all of it"),
            _line("found by", f"{proof.method}, in {proof.seconds:.2g} s"),
            "</table>",
        ]
    return _card("certificate", parts)


def _card(what: str, parts: Iterable[str]) -> str:
    return f'<div role="group" aria-label="{what}" style="{_CARD}">{"".join(parts)}</div>'


def _head(title: str, status: str, colour: str) -> str:
    return (
        f'<div style="{_HEAD}"><strong style="font-size:1.1em">{escape(title)}</strong>'
        f'<span style="{_PILL}{colour}"><span aria-hidden="true" style="color:{colour}">●</span> '
        f"{escape(status)}</span></div>"
    )


def _given(clf: NodeClassifier) -> str:
    """Say what was given, in numbers."""
    n, K = clf.proba_.shape
    said = [_count(n, "node")]
    links = _links(clf)
    if links is not None:
        said.append(_count(links, "link"))
    if hasattr(clf, "n_features_in_"):
        said.append(_count(clf.n_features_in_, "feature"))
    if clf._given is not None:
        said.append(_count(int((clf._given >= 0).sum()), "label"))
    return f"{', '.join(said)} → <strong>{_count(K, 'class', 'es')}</strong>"


def _links(clf: NodeClassifier) -> int | None:
    """Return how many links were given; None where there were none, or nobody knows."""
    if clf._problem is not None:
        return None if clf._problem.graph is None else clf._problem.graph.n_entries // 2
    if clf._findings is None or not clf.fitted_on_graph_:
        return None
    return clf._findings.n_links


def _count(number: int, noun: str, plural: str = "s") -> str:
    return f"{number:,} {noun}{'' if number == 1 else plural}"


def _sizes(clf: NodeClassifier) -> Iterable[str]:
    """Draw the sizes of the classes, the largest first."""
    sizes = np.bincount(clf.proba_.argmax(axis=1), minlength=len(clf.classes_))
    order = np.argsort(-sizes, kind="stable")
    for k in order[:_CLASSES]:
        share = sizes[k] / max(sizes.max(), 1)
        yield _bar(str(clf.classes_[k]), share, f"{sizes[k]:,}", _BLUE)
    if len(order) > _CLASSES:
        rest = int(sizes[order[_CLASSES:]].sum())
        more = _count(len(order) - _CLASSES, "more class", "es")
        yield f'<div style="{_QUIET}">… and {more} of {_count(rest, "node")} together</div>'


def _bar(name: str, share: float, number: str, colour: str) -> str:
    width = f"width:{100 * share:.1f}%;height:100%;background:{colour}"
    return (
        f'<div style="{_ROW}"><span style="{_CLIP}" title="{_short(name)}">{_short(name)}</span>'
        f'<div aria-hidden="true" style="{_TRACK}.7em"><div style="{width}"></div></div>'
        f'<span style="text-align:right">{escape(number)}</span></div>'
    )


def _shares(clf: NodeClassifier) -> Iterable[str]:
    """Draw the shares of the sources as one bar."""
    if not any(clf.sources_.values()):
        return
    pieces, words = [], []
    for source, share in clf.sources_.items():
        colour = _SOURCES.get(source, _GREY)
        pieces.append(f'<div style="width:{100 * share:.1f}%;background:{colour}"></div>')
        dot = f'<span aria-hidden="true" style="color:{colour}">■</span>'
        share_of = f"{dot} {escape(source)} {100 * share:.0f} %"
        words.append(f'<span style="white-space:nowrap">{share_of}</span>')
    yield (
        f'<div style="margin:.8em 0 .2em">Decided by {" &nbsp; ".join(words)}</div>'
        f'<div aria-hidden="true" style="{_TRACK}.7em;display:flex">{"".join(pieces)}</div>'
    )


def _accuracy(clf: NodeClassifier) -> Iterable[str]:
    if clf.estimated_accuracy_ is not None:
        estimate, low, high = (100 * value for value in clf.estimated_accuracy_)
        yield (
            f'<div style="margin-top:.7em">Estimated accuracy <strong>{estimate:.1f} %</strong> '
            f"({low:.1f} to {high:.1f}) at nodes without a label</div>"
        )


def _suspects(clf: NodeClassifier) -> Iterable[str]:
    """Say how many given labels look wrong, and which most."""
    if clf._given is None:
        return
    count = len(clf.suspects_)
    if not count:
        yield '<div style="margin-top:.7em">No given label looks wrong</div>'
        return
    looks = "label looks" if count == 1 else "labels look"
    names = getattr(clf, "node_ids_", np.arange(len(clf.labels_)))
    most = "; ".join(
        f"node {_short(names[one.node])}: {_short(one.given)}, probably {_short(one.suggested)}"
        for one in clf.suspects_[:_SUSPECTS]
    )
    more = "; …" if count > _SUSPECTS else ""
    yield (
        f'<div style="margin-top:.7em"><strong>{count:,}</strong> given {looks} wrong '
        f'<span style="{_QUIET}">({most}{more})</span></div>'
    )


def _short(name: Any) -> str:
    """Return a name as text for HTML, cut where it is long."""
    text = str(name)
    return escape(text if len(text) <= _LETTERS else text[: _LETTERS - 1] + "…")


def _choices(clf: NodeClassifier) -> str:
    """List what was chosen, and why, behind a click."""
    rows = "".join(
        _line(name.replace("_", " "), _said(choice["value"]), choice["why"])
        for name, choice in clf.choices_.items()
    )
    return (
        '<details style="margin-top:.7em"><summary style="cursor:pointer">What was chosen, and why'
        f'</summary><table style="{_TABLE}.4em 0 0;font-size:.9em">'
        f"{rows}</table></details>"
    )


def _said(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def _line(name: str, said: str, why: str = "") -> str:
    """Return one row of a table: a name, what there is to say, and below it why."""
    below = f'<br><span style="{_QUIET}">{escape(why)}</span>' if why else ""
    return (
        f'<tr style="background:none"><th scope="row" style="{_CELL};font-weight:600">'
        f'{escape(name)}</th><td style="{_CELL}">{escape(said)}{below}</td></tr>'
    )


def _number(value: float) -> str:
    return f"{value:,.6g}" if math.isfinite(value) else "unknown"
