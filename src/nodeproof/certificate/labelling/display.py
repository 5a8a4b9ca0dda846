"""What notebooks and plots show of a certificate: a small HTML card, and its way there."""

from __future__ import annotations

import math
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

from nodeproof.certificate.status import NO_PROOF, nats, percent
from nodeproof.runtime import html

if TYPE_CHECKING:
    from nodeproof.certificate.labelling.result import Certificate

__all__ = ["certificate_card", "draw_progress"]

# Least height of the picture, relative to the objective; the share of the time that is early.
_SPAN, _EARLY = 1e-4, 0.05


def certificate_card(proof: Certificate) -> str:
    """Return a certificate as HTML: what it says, the gap, and how many nodes are certain."""
    applies = proof.status != "not applicable"
    colour = html.GREEN if proof.certified else html.AMBER if applies else html.GREY
    parts = [
        html.head("Certificate", proof.status, colour),
        f'<div style="margin:.4em 0 .7em">{escape(proof.explain())}</div>',
    ]
    if applies:
        close = proof.gap <= NO_PROOF
        gap = f"{nats(proof.gap_nats)} ({percent(proof.gap)})" if close else "no proof"
        n, sure = len(proof.labels), int(proof.certified_nodes.sum())
        parts += [
            html.bar("certain nodes", sure / max(n, 1), f"{sure:,} of {n:,}", html.GREEN),
            f'<table style="{html.TABLE}.7em 0 0">',
            html.line("objective", _number(proof.objective)),
            html.line("no labelling is below", _number(proof.lower_bound)),
            html.line("gap", gap),
            html.line("found by", _found_by(proof)),
            "</table>",
        ]
    return html.card("certificate", parts)


def draw_progress(certificate: Certificate, axes: Any) -> None:
    """Draw objective and bound over time, and the gap that is left between them."""
    history = np.array(certificate.history, dtype=np.float64).reshape(-1, 3)
    if not len(history):
        history = np.array([[0.0, certificate.objective, certificate.lower_bound]])
    end = max(float(history[-1, 0]), certificate.seconds if certificate.seconds > 0 else 0.0, 1e-3)
    last = [end, certificate.objective, certificate.lower_bound]
    seconds, objective, bound = np.vstack([history, last]).T
    # A bound holds for ever; none is shown that the certificate does not claim.
    bound = np.minimum(np.maximum.accumulate(bound), certificate.lower_bound)
    bound = np.where(np.isfinite(bound), bound, np.nan)
    axes.step(seconds, objective, where="post", color="#b04a3a", label="labelling found")
    axes.step(seconds, bound, where="post", color="#2f6f9f", label="no labelling is below")
    axes.fill_between(seconds, bound, objective, step="post", color="#8794a3", alpha=0.25, lw=0)
    if np.isfinite(bound).any():
        # The first bounds may be far off: shown are those that stand after some of the time.
        first = int((seconds[1:] <= _EARLY * end).sum())
        low, high = float(np.nanmin(bound[first:])), float(objective.max())
        span = max(high - low, _SPAN * abs(certificate.objective), 1e-12)
        axes.set_ylim(low - 0.15 * span, high + 0.5 * span)  # with room for the legend
    axes.set(xlabel="seconds", ylabel="nats", xlim=(0.0, end))
    axes.ticklabel_format(useOffset=False)
    axes.set_title(certificate.status)
    axes.legend(loc="upper right", frameon=False)
    axes.spines[["top", "right"]].set_visible(False)


def _number(value: float) -> str:
    return f"{value:,.6g}" if math.isfinite(value) else "unknown"


def _found_by(proof: Certificate) -> str:
    if math.isnan(proof.seconds):
        return proof.method
    return f"{proof.method}, in {proof.seconds:.2g} s"
