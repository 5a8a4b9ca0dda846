"""The conditions under which the ideal solution is optimal, checked one by one."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from nodeproof.certificate.program_bound import least_over_models
from nodeproof.certificate.program_ideal import Ideal
from nodeproof.certificate.program_links import Conditions
from nodeproof.certificate.program_paper import Built, own_costs

__all__ = ["check_conditions"]

Array = NDArray[np.float64]

# Rounding, as a share of the size of what is compared.
_ROUNDING = 1e-9


def check_conditions(ideal: Ideal, built: Built, steps: int) -> Conditions:
    """Return the paper's optimality conditions for Z and g: name → (holds, margin).

    Margins below zero say by how much a condition fails; equalities have none above. Flows
    count as the construction has them, allowed or not.

    Parameters
    ----------
    ideal : Ideal
        The ideal solution.
    built : Built
        A construction: ``Z = B + Γ + diag ν``.
    steps : int
        How often to improve the eigenvalue over a spectral box.
    """
    dual, flows = built.dual, built.dual.flows
    across = ~ideal.together
    inside = ideal.together & ~np.eye(len(ideal.z), dtype=bool)
    B, gamma = ideal.program.B, dual.gamma
    size = max(float(np.abs(B).max(initial=0.0)), float(np.abs(gamma).max(initial=0.0)), 1e-300)
    q = ideal.gradients + ideal.program.son * built.forces
    spread = float((np.abs(B) + np.abs(gamma)).sum(axis=1).max() + np.abs(dual.nu).max())
    length = max(flows.longest(ideal), 1.0)
    found = {
        "Z ≤ B inside": _near(-gamma[inside].max(initial=-np.inf), size),
        "Z ≥ B across": _near(gamma[across].min(initial=np.inf), size),
        "‖g‖ ≤ 1": _near(1.0 - flows.longest(ideal), 1.0),
        "g_vu = −g_uv": _near(-flows.asymmetry(ideal), length),
        "g points apart": _near(-_misled(ideal, flows.between), 1.0),
        "eᵢᵀ(D(θ̂ᵢ) − Z)eᵢ = 0": _near(-_off_value(ideal, built), max(spread, 1.0)),
        "D(θ) − Z ⪰ 0": _near(least_over_models(ideal, dual, q, steps), max(spread, 1.0)),
    }
    if not ideal.program.son:
        for name in ("‖g‖ ≤ 1", "g_vu = −g_uv", "g points apart"):
            del found[name]
    return found | built.asked


def _misled(ideal: Ideal, between: Array) -> float:
    """Return how far ``⟨g_ij, θ̂_i − θ̂_j⟩`` falls short of the norm, relative to the longest."""
    apart = ideal.theta[:, None] - ideal.theta[None]
    lengths = np.linalg.norm(apart, axis=2)
    short = lengths - np.einsum("ijd,ijd->ij", between, apart)
    return float(short.max(initial=0.0) / max(float(lengths.max(initial=0.0)), 1e-300))


def _off_value(ideal: Ideal, built: Built) -> float:
    """Return the largest ``|e_iᵀ(D(θ̂_i) − Z)e_i|``."""
    weights = ideal.members / np.sqrt(ideal.sizes)
    Z = ideal.program.B + built.dual.gamma
    diagonal = own_costs(ideal, built.forces) - built.dual.nu
    values = (weights**2).T @ diagonal - np.einsum("vi,vu,ui->i", weights, Z, weights)
    return float(np.abs(values).max())


def _near(margin: float, size: float) -> tuple[bool, float]:
    return bool(margin >= -_ROUNDING * size), float(margin)
