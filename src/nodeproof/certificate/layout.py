"""What arrays the file of a certificate holds, and which shapes agree with each other."""

from __future__ import annotations

from collections.abc import Mapping

from nodeproof.io.layout import Expected, check_layout
from nodeproof.io.npz import Header

__all__ = ["check_certificate"]

_SAID = {
    "meta": Expected("u", "*", required=True),
    "labels": Expected("i", "n", required=True),
    "certified_nodes": Expected("b", "n", required=True),
    "moved": Expected("i", "*", required=True),
    "eigenvalues": Expected("f", "*", required=True),
    "history": Expected("f", "* 3", required=True),
}
_PROBLEM = {
    "costs": Expected("f", "n K"),
    "eta": Expected("f", "n"),
    "scales": Expected("f", "2"),
    "indptr": Expected("i", "n+1"),
    "indices": Expected("i", "E"),
    "weights": Expected("biuf", "E | 0"),
}
_DUAL = {"nu": "n", "r": "K n", "sigma": "K", "gamma": "n n | K n n", "a": "n K", "g": "K K"}
# Of the nodes that were not sure at a step, there are as many as it says.
_STEP = {name: shapes.replace("n", "n{0}") for name, shapes in _DUAL.items()}

_LAYOUT = (
    _SAID
    | _PROBLEM
    | {f"(?:node_)?{name}": Expected("f", shapes) for name, shapes in _DUAL.items()}
    | {"(?:node_)?factor_labels": Expected("i", "n")}
    | {r"step\d+_sure": Expected("b", "n"), r"step\d+_bound": Expected("f", "")}
    | {rf"step(\d+)_{name}": Expected("f", shapes) for name, shapes in _STEP.items()}
    | {r"step(\d+)_factor_labels": Expected("i", "n{0}")}
)


def check_certificate(headers: Mapping[str, Header]) -> None:
    """Refuse arrays that do not fit together, by their headers alone."""
    check_layout(headers, _LAYOUT)
    groups = ["", "node_"] + [
        name.removesuffix("sure")
        for name in headers
        if name.startswith("step") and name.endswith("_sure")
    ]
    for prefix in groups:
        dual = {prefix + name for name in ("nu", "r", "sigma")} & set(headers)
        if len(dual) not in (0, 3):
            raise ValueError("some dual variables are missing")
        factors = {prefix + name for name in ("factor_labels", "a", "g")} & set(headers)
        if len(factors) not in (0, 3):
            raise ValueError("some factors of dual variables are missing")
    given = set(_PROBLEM) & set(headers)
    if given and not (given == set(_PROBLEM) and "nu" in headers):
        raise ValueError("a part of the labelling problem, or of its dual variables, is missing")
    steps = [name.removesuffix("sure") for name in headers if name.endswith("_sure")]
    for k in range(len(steps)):
        if not {f"step{k}_sure", f"step{k}_bound", f"step{k}_nu"} <= set(headers):
            raise ValueError("the steps of the proof are not all there")
