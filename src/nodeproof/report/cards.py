"""What a notebook shows of a fitted classifier and of a certificate: a small card of HTML.

Colours are those of the page, thinned out, so that a card is at home on light and on dark. Whatever
comes from data is escaped.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import partial
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from nodeproof.certificate import Certificate
    from nodeproof.fitted import Fitted

__all__ = ["NotebookCard", "certificate_card", "classifier_card"]

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


class NotebookCard:
    """Shows a fitted classifier as a card in notebooks, and one to be fitted as scikit-learn does.

    A mixin, to stand before `BaseEstimator`.
    """

    @property
    def _repr_html_(self) -> Any:
        # Raises AttributeError where scikit-learn is set to show text.
        diagram = super()._repr_html_  # type: ignore[misc]
        fitted = getattr(self, "fitted_", None)
        return diagram if fitted is None else partial(classifier_card, fitted)

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, str]:
        bundle: dict[str, str] = super()._repr_mimebundle_(**kwargs)  # type: ignore[misc]
        return {**bundle, "text/html": self._repr_html_()} if "text/html" in bundle else bundle


def classifier_card(fitted: Fitted) -> str:
    """Return a fitted classifier as HTML: what was given, what was found, and how sure it is."""
    colour = _GREEN if fitted.status == "converged" else _AMBER
    parts = [
        _head("NodeClassifier", fitted.status, colour),
        f'<div style="margin:.3em 0 .7em">{_given(fitted)}</div>',
        *_sizes(fitted),
        *_shares(fitted),
        *_accuracy(fitted),
        *_suspects(fitted),
        _choices(fitted),
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


def _given(fitted: Fitted) -> str:
    """Say what was given, in numbers."""
    n, K = fitted.proba.shape
    said = [_count(n, "node")]
    if fitted.n_links is not None:
        said.append(_count(fitted.n_links, "link"))
    if fitted.n_features is not None:
        said.append(_count(fitted.n_features, "feature"))
    if fitted.given is not None:
        said.append(_count(int((fitted.given >= 0).sum()), "label"))
    return f"{', '.join(said)} → <strong>{_count(K, 'class', 'es')}</strong>"


def _count(number: int, noun: str, plural: str = "s") -> str:
    return f"{number:,} {noun}{'' if number == 1 else plural}"


def _sizes(fitted: Fitted) -> Iterable[str]:
    """Draw the sizes of the classes, the largest first."""
    sizes = np.bincount(fitted.codes, minlength=len(fitted.classes))
    order = np.argsort(-sizes, kind="stable")
    for k in order[:_CLASSES]:
        share = sizes[k] / max(sizes.max(), 1)
        yield _bar(str(fitted.classes[k]), share, f"{sizes[k]:,}", _BLUE)
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


def _shares(fitted: Fitted) -> Iterable[str]:
    """Draw the shares of the sources as one bar."""
    if not any(fitted.sources.values()):
        return
    pieces, words = [], []
    for source, share in fitted.sources.items():
        colour = _SOURCES.get(source, _GREY)
        pieces.append(f'<div style="width:{100 * share:.1f}%;background:{colour}"></div>')
        dot = f'<span aria-hidden="true" style="color:{colour}">■</span>'
        share_of = f"{dot} {escape(source)} {100 * share:.0f} %"
        words.append(f'<span style="white-space:nowrap">{share_of}</span>')
    yield (
        f'<div style="margin:.8em 0 .2em">Decided by {" &nbsp; ".join(words)}</div>'
        f'<div aria-hidden="true" style="{_TRACK}.7em;display:flex">{"".join(pieces)}</div>'
    )


def _accuracy(fitted: Fitted) -> Iterable[str]:
    if fitted.estimated_accuracy is not None:
        estimate, low, high = (100 * value for value in fitted.estimated_accuracy)
        yield (
            f'<div style="margin-top:.7em">Estimated accuracy <strong>{estimate:.1f} %</strong> '
            f"({low:.1f} to {high:.1f}) at nodes without a label</div>"
        )


def _suspects(fitted: Fitted) -> Iterable[str]:
    """Say how many given labels look wrong, and which most."""
    if fitted.given is None:
        return
    count = len(fitted.suspects)
    if not count:
        yield '<div style="margin-top:.7em">No given label looks wrong</div>'
        return
    looks = "label looks" if count == 1 else "labels look"
    names = fitted.names
    most = "; ".join(
        f"node {_short(names[one.node])}: {_short(one.given)}, probably {_short(one.suggested)}"
        for one in fitted.suspects[:_SUSPECTS]
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


def _choices(fitted: Fitted) -> str:
    """List what was chosen, and why, behind a click."""
    rows = "".join(
        _line(name.replace("_", " "), _said(choice["value"]), choice["why"])
        for name, choice in fitted.choices.items()
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
