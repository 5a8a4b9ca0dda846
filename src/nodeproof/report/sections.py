"""Tables of the report, as rows for the template."""

from __future__ import annotations

import platform
from collections.abc import Callable, Sequence
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import numpy as np

from nodeproof import __version__
from nodeproof.auto.held_out import CrossFitted
from nodeproof.certificate.status import NO_PROOF
from nodeproof.errors import InputError
from nodeproof.inputs import encode_truth
from nodeproof.inputs.node_names import align_rows
from nodeproof.metrics import class_scores, is_skewed
from nodeproof.report.data import ReportData
from nodeproof.report.experts import (
    Score,
    changed_proportions,
    meaning_of_accuracy,
    scores,
    scores_of,
    shown_choice,
)
from nodeproof.report.wording import accuracy, gap, percent

if TYPE_CHECKING:
    from nodeproof.certificate import Certificate

__all__ = [
    "accuracy_section",
    "block_matrix",
    "class_rows",
    "confusion",
    "judged_nodes",
    "settings",
    "tiles",
    "verdict",
    "versions",
]

# With more classes, matrices stand below each other.
_SIDE_BY_SIDE = 8

# The most characters in the header of a matrix, on half of a page and in a narrow window.
_WORDS_WIDE, _WORDS_NARROW = 44, 28

_PACKAGES = ("numpy", "scipy", "scikit-learn", "numba", "pyarrow")


def judged_nodes(report: ReportData, y_true: Any) -> CrossFitted:
    """Return the nodes that probabilities are judged by: with true labels, or cross-fitted.

    A true class that is not among the fitted ones has the number K, and a column of zeros: any
    prediction for such a node is wrong.
    """
    fitted, findings = report.fitted, report.findings
    if y_true is None:
        return CrossFitted(
            findings.judged_nodes, findings.judged_labels, findings.judged_proba, findings.noise
        )
    names = range(report.n) if fitted.node_ids is None else fitted.node_ids
    codes = encode_truth(align_rows(y_true, names, "y_true", "the fit"), fitted.classes, "y_true")
    if len(codes) != report.n:
        raise InputError(f"y_true has {len(codes)} entries for {report.n} nodes")
    report.judged_by = "truth"
    if fitted.given is not None:
        codes[fitted.given >= 0] = -1
    nodes = np.flatnonzero(codes >= 0)
    proba = fitted.proba[nodes]
    if (codes == report.K).any():
        proba = np.pad(proba, ((0, 0), (0, 1)))
    return CrossFitted(nodes, codes[nodes], proba, 0.0)


def tiles(
    report: ReportData, certificate: Certificate | None, skewed: Sequence[Score] = ()
) -> list[dict[str, str]]:
    """Return the headline figures: each a value, what it is, and a note.

    Parameters
    ----------
    skewed : sequence of Score
        What accuracy hides, if classes are skewed.
    """
    fitted, findings = report.fitted, report.findings
    found = []
    if fitted.estimated_accuracy is not None:
        estimate, interval = accuracy(*fitted.estimated_accuracy)
        found.append(
            {
                "value": estimate,
                "what": "estimated accuracy",
                "note": f"on unlabelled nodes; {interval}",
            }
        )
    elif report.K > 1 and fitted.settings.temperature > 0:
        mean = float(fitted.proba.max(axis=1).mean())
        found.append(
            {"value": percent(mean), "what": "mean probability", "note": "of the predicted class"}
        )
    # That of always naming the largest class is shown further down.
    found += [
        {"value": score.value, "what": score.name, "note": score.remark or "classes are skewed"}
        for score in skewed[:2]
    ]
    if report.n_labels:
        share = len(fitted.suspects) / report.n_labels
        found.append(
            {
                "value": f"{len(fitted.suspects):,}",
                "what": "label looks wrong" if len(fitted.suspects) == 1 else "labels look wrong",
                "note": f"of {report.n_labels:,} given ({percent(share)})",
            }
        )
    if fitted.sources:
        source, share = max(fitted.sources.items(), key=lambda item: item[1])
        found.append(
            {"value": percent(share), "what": f"decided by {source}", "note": "the main source"}
        )
    if certificate is not None and certificate.status != "not applicable":
        sure = int(certificate.certified_nodes.sum())
        if certificate.certified:
            value, what = "proven", "optimal labelling"
            if (tolerance := certificate.special_tolerance) is not None:
                what = f"optimal labelling, up to a tolerance of {tolerance:.3g}"
        elif certificate.gap <= NO_PROOF:
            value, what = _at_most(certificate.gap), "from the optimal labelling"
        else:
            value, what = "no proof", "that the labelling is optimal"
        note = f"{sure:,} of {report.n:,} nodes are certified"
        found.append({"value": value, "what": what, "note": note})
    given = {"nodes": report.n, "links": findings.n_links, "features": findings.n_features}
    found += [
        {"value": f"{count:,}", "what": what[:-1] if count == 1 else what, "note": "given"}
        for what, count in given.items()
        if count
    ]
    return found


def _at_most(gap: float) -> str:
    """Return an upper bound of a gap, in few digits."""
    shown = percent(gap)
    return shown if shown.startswith("<") else f"≤\xa0{shown}"


def accuracy_section(report: ReportData, judged: CrossFitted) -> dict[str, Any] | None:
    """Return what the accuracy means, the class mix, and scores where classes are skewed.

    Parameters
    ----------
    judged : CrossFitted
        As by `judged_nodes`; scores are by true labels if these were given.
    """
    fitted = report.fitted
    found, judge, known = scores(fitted), "held-out labels", None
    if report.judged_by == "truth":
        found, judge = [], "the true labels of unlabelled nodes"
        sizes = np.bincount(judged.codes, minlength=report.K)
        if len(judged.nodes) and (is_skewed(sizes) or is_skewed(report.sizes)):
            known = float((judged.proba.argmax(axis=1) == judged.codes).mean())
            found = scores_of(class_scores(judged.codes, judged.proba), int((sizes > 0).sum()))
    elif fitted.estimated_accuracy is not None:
        known = fitted.estimated_accuracy[0]
    meaning, mix = meaning_of_accuracy(fitted), changed_proportions(fitted)
    if not (meaning or found):
        return None
    return {
        "meaning": meaning,
        "mix": mix and [mix[k] for k in report.shown_classes],
        "scores": found,
        "known": known,
        "judge": judge,
    }


def class_rows(report: ReportData) -> list[dict[str, Any]]:
    """Return one row per class."""
    fitted, K = report.fitted, report.K
    confidence = np.bincount(
        report.codes, weights=fitted.proba.max(axis=1).astype(np.float64), minlength=K
    )
    given = np.zeros(K, dtype=int)
    doubted = np.zeros(K, dtype=int)
    if fitted.given is not None:
        given = np.bincount(fitted.given[fitted.given >= 0], minlength=K)
        doubted = np.bincount(fitted.given[fitted.suspects.node], minlength=K)
    sizes = report.sizes
    return [
        {
            "at": k,
            "name": report.names[k],
            "size": int(sizes[k]),
            "share": sizes[k] / report.n,
            "confidence": confidence[k] / sizes[k] if sizes[k] else None,
            "given": int(given[k]),
            "suspects": int(doubted[k]),
        }
        for k in range(K)
    ]


def confusion(report: ReportData) -> dict[str, Any] | None:
    """Return the confusion matrix: nodes by given label and predicted class."""
    given = report.fitted.given
    if given is None or report.K == 1:
        return None
    labelled = given >= 0
    counts = np.zeros((report.K, report.K), dtype=int)
    np.add.at(counts, (given[labelled], report.codes[labelled]), 1)
    whole = np.maximum(counts.sum(axis=1), 1)

    def cell(i: int, j: int) -> dict[str, Any]:
        count = counts[i, j]
        return {
            "text": f"{count:,}" if count else "·",
            "strength": round(100 * count / whole[i]),
            "kind": "same" if i == j else "other",
            "title": f"{count:,} of {whole[i]:,}",
        }

    return {
        **_matrix(report, cell),
        "agree": float(np.trace(counts) / max(counts.sum(), 1)),
    }


def block_matrix(report: ReportData) -> dict[str, Any] | None:
    """Return the links between each pair of classes, as multiples of chance."""
    blocks, chance = report.findings.blocks, report.findings.chance
    if blocks is None or chance is None or report.K == 1 or not blocks.sum():
        return None
    ratio = np.divide(blocks, chance, out=np.full_like(blocks, np.nan), where=chance > 0)

    def cell(i: int, j: int) -> dict[str, Any]:
        r = float(ratio[i, j])
        if not np.isfinite(r):
            return {"text": "–", "strength": 0, "kind": "more", "title": "no pairs"}
        # Colours saturate at eight times and an eighth of chance.
        strength = min(abs(np.log2(max(r, 1e-9))) / 3.0, 1.0)
        count = blocks[i, j] / (2 if i == j else 1)
        # Columns of many classes are narrow.
        small, times = (".2f", "") if report.K > _SIDE_BY_SIDE else (".2g", "×")
        text = f"{r:{'.0f' if r >= 9.5 else '.1f' if r >= 0.095 else small}}{times}"
        return {
            "text": text if r else "0",
            "strength": round(100 * float(strength)),
            "kind": "more" if r >= 1 else "fewer",
            "title": f"{count:,.10g} links",
        }

    return {
        **_matrix(report, cell),
        "inside": float(np.trace(blocks) / blocks.sum()),
        "expected": float(np.trace(chance) / chance.sum()) if chance.sum() else 0.0,
    }


def _matrix(report: ReportData, cell: Callable[[int, int], dict[str, Any]]) -> dict[str, Any]:
    """Return a table over pairs of classes, or of the largest classes."""
    shown = report.shown_classes.tolist()
    names = [report.names[k] for k in shown]
    rows = [[cell(i, j) for j in shown] for i in shown]
    words = [word for name in names for word in name.split()]
    needed = len(shown) * (1 + max(map(len, words), default=0))
    return {
        "names": names,
        "rows": rows,
        "left_out": report.K - len(shown),
        "longest": max(map(len, names)),
        "widest": max(len(one["text"]) for row in rows for one in row),
        # Headers are rotated if they do not fit, on half of a page or on a phone.
        "turned": (
            "turned" if needed > _WORDS_WIDE else "turned-narrow" if needed > _WORDS_NARROW else ""
        ),
        "many": len(shown) > _SIDE_BY_SIDE,
    }


def verdict(report: ReportData) -> dict[str, Any] | None:
    """Return what is proven, as a sentence and as figures."""
    proof = report.certificate
    if proof is None:
        return None
    n, sure = len(proof.labels), int(proof.certified_nodes.sum())
    return {
        "kind": "good" if proof.certified else "open",
        "sentence": proof.explain(),
        "applicable": proof.status != "not applicable",
        "status": proof.status,
        "objective": f"{proof.objective:,.6g}",
        "bound": f"{proof.lower_bound:,.6g}",
        "gap": "within the tolerance"
        if proof.certified and proof.gap > NO_PROOF
        else gap(proof.gap_nats, proof.gap),
        "certified": proof.certified,
        "sure": sure,
        "n": n,
        "width": 100.0 * sure / max(n, 1),
        "moved": int((proof.labels != report.codes).sum()),
    }


def settings(report: ReportData) -> list[dict[str, str]]:
    """Return the record of automatic choices."""
    rows = []
    for name, choice in report.fitted.choices.items():
        shown = shown_choice(name, choice["value"])
        rows.append({"name": name.replace("_", " "), "value": shown, "why": str(choice["why"])})
    seed = report.fitted.settings.random_state
    rows.append(
        {
            "name": "seed",
            "value": str(seed),
            "why": "the same seed gives the same result"
            if seed is not None
            else "not given: another run may differ in a few nodes",
        }
    )
    return rows


def versions() -> str:
    """Return the versions of nodeproof, Python and the main dependencies."""
    listed = [f"nodeproof {__version__}", f"Python {platform.python_version()}"]
    return ", ".join(listed + [f"{name} {version(name)}" for name in _PACKAGES])
