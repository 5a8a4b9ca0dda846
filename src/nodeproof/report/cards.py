"""Notebook card of a fitted classifier, in HTML."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

from nodeproof.report.experts import (
    caveats,
    class_mix,
    expert_table,
    scores,
    shown_choice,
)
from nodeproof.runtime import html

if TYPE_CHECKING:
    from nodeproof.fitted import Fitted

__all__ = ["NotebookCard", "classifier_card"]

# The most classes and suspects shown.
_CLASSES, _SUSPECTS = 8, 3

_SOURCES = {"graph": html.BLUE, "features": html.AMBER, "labels": html.GREEN}


class NotebookCard:
    """Mixin that shows a fitted classifier as a card in notebooks; goes before `BaseEstimator`.

    An unfitted classifier is shown as by scikit-learn.
    """

    @property
    def _repr_html_(self) -> Any:
        # Raises AttributeError if scikit-learn is set to show text.
        diagram = super()._repr_html_  # type: ignore[misc]
        fitted = getattr(self, "fitted_", None)
        return diagram if fitted is None else partial(classifier_card, fitted)

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, str]:
        bundle: dict[str, str] = super()._repr_mimebundle_(**kwargs)  # type: ignore[misc]
        return {**bundle, "text/html": self._repr_html_()} if "text/html" in bundle else bundle


def classifier_card(fitted: Fitted) -> str:
    """Return a fitted classifier as HTML: data, classes, sources, accuracy, suspects, choices."""
    colour = html.GREEN if fitted.status == "converged" else html.AMBER
    parts = [
        html.head("NodeClassifier", fitted.status, colour),
        f'<div style="margin:.3em 0 .7em">{_given(fitted)}</div>',
        *_sizes(fitted),
        *_shares(fitted),
        *_accuracy(fitted),
        *_experts(fitted),
        *_suspects(fitted),
        _choices(fitted),
    ]
    return html.card("fitted node classifier", parts)


def _given(fitted: Fitted) -> str:
    """Return the size of the data."""
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
        yield html.bar(str(fitted.classes[k]), share, f"{sizes[k]:,}", html.BLUE)
    if len(order) > _CLASSES:
        rest = int(sizes[order[_CLASSES:]].sum())
        more = _count(len(order) - _CLASSES, "more class", "es")
        yield f'<div style="{html.QUIET}">… and {more} with {_count(rest, "node")} in total</div>'


def _shares(fitted: Fitted) -> Iterable[str]:
    """Draw the shares of the sources as one bar."""
    if not any(fitted.sources.values()):
        return
    pieces, words = [], []
    for source, share in fitted.sources.items():
        colour = _SOURCES.get(source, html.GREY)
        pieces.append(f'<div style="width:{100 * share:.1f}%;background:{colour}"></div>')
        dot = f'<span aria-hidden="true" style="color:{colour}">■</span>'
        share_of = f"{dot} {escape(source)} {100 * share:.0f} %"
        words.append(f'<span style="white-space:nowrap">{share_of}</span>')
    yield (
        f'<div style="margin:.8em 0 .2em">Decided by {" &nbsp; ".join(words)}</div>'
        f'<div aria-hidden="true" style="{html.TRACK}.7em;display:flex">{"".join(pieces)}</div>'
    )


def _accuracy(fitted: Fitted) -> Iterable[str]:
    if fitted.estimated_accuracy is not None:
        estimate, low, high = (100 * value for value in fitted.estimated_accuracy)
        yield (
            f'<div style="margin-top:.7em">Estimated accuracy <strong>{estimate:.1f} %</strong> '
            f"({low:.1f} to {high:.1f}) on unlabelled nodes</div>"
        )
        if mix := class_mix(fitted):
            yield f'<div style="{html.QUIET}">Their estimated class mix: {escape(mix)}</div>'
    if found := scores(fitted):
        listed = ", ".join(map(str, found))
        yield f'<div style="margin-top:.4em">Classes are skewed: {escape(listed)}</div>'
    yield from (
        f'<div style="margin-top:.4em;{html.QUIET}">{escape(_sentence(text))}</div>'
        for text in caveats(fitted)
    )


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."


def _experts(fitted: Fitted) -> Iterable[str]:
    """Return the table of experts, collapsed."""
    table = expert_table(fitted.choices)
    if table is None:
        return
    heads = ("expert", "draws on", "log-loss", "weight")
    rows = [
        (row.expert, f"{row.about} ({row.setting})", row.log_loss, row.weight) for row in table.rows
    ]
    rows += [(name, what, loss, "") for name, what, loss in table.compared]
    said = [
        table.verdict,
        table.reading,
        *(f"Left out: {names} ({why})." for names, why in table.left_out),
    ]
    yield (
        '<details style="margin-top:.7em"><summary style="cursor:pointer">'
        f"Experts: {escape(shown_choice('experts', fitted.choices['experts']['value']))}</summary>"
        f"{html.table(heads, rows)}"
        + "".join(f'<div style="{html.QUIET}">{escape(text)}</div>' for text in said)
        + "</details>"
    )


def _suspects(fitted: Fitted) -> Iterable[str]:
    """Return how many given labels look wrong, and the most suspect ones."""
    if fitted.given is None:
        return
    count = len(fitted.suspects)
    if not count:
        yield '<div style="margin-top:.7em">No given label looks wrong</div>'
        return
    looks = "label looks" if count == 1 else "labels look"
    names = fitted.names
    most = "; ".join(
        f"node {html.short(names[one.node])}: {html.short(one.given)}, "
        f"probably {html.short(one.suggested)}"
        for one in fitted.suspects[:_SUSPECTS]
    )
    more = "; …" if count > _SUSPECTS else ""
    yield (
        f'<div style="margin-top:.7em"><strong>{count:,}</strong> given {looks} wrong '
        f'<span style="{html.QUIET}">({most}{more})</span></div>'
    )


def _choices(fitted: Fitted) -> str:
    """Return the record of automatic choices, collapsed."""
    rows = "".join(
        html.line(name.replace("_", " "), shown_choice(name, choice["value"]), choice["why"])
        for name, choice in fitted.choices.items()
    )
    return (
        '<details style="margin-top:.7em"><summary style="cursor:pointer">Automatic choices'
        f'</summary><table style="{html.TABLE}.4em 0 0;font-size:.9em">'
        f"{rows}</table></details>"
    )
