"""What a notebook shows of a fitted classifier: a small card of HTML."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

from nodeproof.runtime import html

if TYPE_CHECKING:
    from nodeproof.estimator import NodeClassifier

__all__ = ["classifier_card"]

# Classes and suspects that there is room for.
_CLASSES, _SUSPECTS = 8, 3

_SOURCES = {"graph": html.BLUE, "features": html.AMBER, "labels": html.GREEN}


def classifier_card(clf: NodeClassifier) -> str:
    """Return a fitted classifier as HTML: what was given, what was found, and how sure it is."""
    colour = html.GREEN if clf.status_ == "converged" else html.AMBER
    parts = [
        html.head(type(clf).__name__, clf.status_, colour),
        f'<div style="margin:.3em 0 .7em">{_given(clf)}</div>',
        *_sizes(clf),
        *_shares(clf),
        *_accuracy(clf),
        *_suspects(clf),
        _choices(clf),
    ]
    return html.card("fitted node classifier", parts)


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
        yield html.bar(str(clf.classes_[k]), share, f"{sizes[k]:,}", html.BLUE)
    if len(order) > _CLASSES:
        rest = int(sizes[order[_CLASSES:]].sum())
        more = _count(len(order) - _CLASSES, "more class", "es")
        yield f'<div style="{html.QUIET}">… and {more} of {_count(rest, "node")} together</div>'


def _shares(clf: NodeClassifier) -> Iterable[str]:
    """Draw the shares of the sources as one bar."""
    if not any(clf.sources_.values()):
        return
    pieces, words = [], []
    for source, share in clf.sources_.items():
        colour = _SOURCES.get(source, html.GREY)
        pieces.append(f'<div style="width:{100 * share:.1f}%;background:{colour}"></div>')
        dot = f'<span aria-hidden="true" style="color:{colour}">■</span>'
        share_of = f"{dot} {escape(source)} {100 * share:.0f} %"
        words.append(f'<span style="white-space:nowrap">{share_of}</span>')
    yield (
        f'<div style="margin:.8em 0 .2em">Decided by {" &nbsp; ".join(words)}</div>'
        f'<div aria-hidden="true" style="{html.TRACK}.7em;display:flex">{"".join(pieces)}</div>'
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
        f"node {html.short(names[one.node])}: {html.short(one.given)}, "
        f"probably {html.short(one.suggested)}"
        for one in clf.suspects_[:_SUSPECTS]
    )
    more = "; …" if count > _SUSPECTS else ""
    yield (
        f'<div style="margin-top:.7em"><strong>{count:,}</strong> given {looks} wrong '
        f'<span style="{html.QUIET}">({most}{more})</span></div>'
    )


def _choices(clf: NodeClassifier) -> str:
    """List what was chosen, and why, behind a click."""
    rows = "".join(
        html.line(name.replace("_", " "), _said(choice["value"]), choice["why"])
        for name, choice in clf.choices_.items()
    )
    return (
        '<details style="margin-top:.7em"><summary style="cursor:pointer">What was chosen, and why'
        f'</summary><table style="{html.TABLE}.4em 0 0;font-size:.9em">'
        f"{rows}</table></details>"
    )


def _said(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
