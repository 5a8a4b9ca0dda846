"""What notebooks and plots show of a certificate: a small HTML card, and its spectrum."""

from __future__ import annotations

import math
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

from nodeproof.runtime import html

if TYPE_CHECKING:
    from nodeproof.certificate.labelling.result import Certificate

__all__ = ["certificate_card", "draw_spectrum"]


def certificate_card(proof: Certificate) -> str:
    """Return a certificate as HTML: what it says, the gap, and how many nodes are certain."""
    applies = proof.status != "not applicable"
    colour = html.GREEN if proof.certified else html.AMBER if applies else html.GREY
    parts = [
        html.head("Certificate", proof.status, colour),
        f'<div style="margin:.4em 0 .7em">{escape(proof.explain())}</div>',
    ]
    if applies:
        gap = f"{100 * proof.gap:.3g} %" if proof.gap < 1 else "more than all of it"
        n, sure = len(proof.labels), int(proof.certified_nodes.sum())
        parts += [
            html.bar("certain nodes", sure / max(n, 1), f"{sure:,} of {n:,}", html.GREEN),
            f'<table style="{html.TABLE}.7em 0 0">',
            html.line("objective", _number(proof.objective)),
            html.line("no labelling is below", _number(proof.lower_bound)),
            html.line("gap", gap),
            html.line("found by", f"{proof.method}, in {proof.seconds:.2g} s"),
            "</table>",
        ]
    return html.card("certificate", parts)


def draw_spectrum(certificate: Certificate, axes: Any) -> None:
    """Draw the eigenvalues as a row of marks on both sides of zero."""
    values = certificate.eigenvalues
    below = values < -1e-9 * float(np.abs(values).max(initial=0.0))
    axes.axvline(0.0, color="black", lw=1.2)
    for chosen, colour in ((~below, "#2f6f9f"), (below, "#b04a3a")):
        heights = np.zeros(int(chosen.sum()))
        axes.plot(values[chosen], heights, "|", ms=28, mew=2, color=colour)
    axes.plot([0.0], [0.0], "o", color="black", ms=6)
    axes.set(yticks=[], xlabel="lowest eigenvalues beyond the classes themselves", ylim=(-1, 1))
    axes.set_title(certificate.status)
    axes.spines[["left", "top", "right"]].set_visible(False)


def _number(value: float) -> str:
    return f"{value:,.6g}" if math.isfinite(value) else "unknown"
