"""Certificates: proofs that a labelling is optimal, or a bound on its gap.

`labelling` certifies the labels of a fit, `program` a solution of the paper's convex program; they
do not import each other's callers, and what is listed here is found on first use, so that reading
a saved model does not load the convex side. `labelling` may import `solvers` and what is below;
`program` may import `convex` as well.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nodeproof.certificate.labelling.certify import certify
    from nodeproof.certificate.labelling.result import Certificate
    from nodeproof.certificate.labelling.search import Stage
    from nodeproof.certificate.program.certify import ProgramCertificate, certify_program

__all__ = ["Certificate", "ProgramCertificate", "Stage", "certify", "certify_program"]

_HOMES = {
    "Certificate": "labelling.result",
    "ProgramCertificate": "program.certify",
    "Stage": "labelling.search",
    "certify": "labelling.certify",
    "certify_program": "program.certify",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(f"nodeproof.certificate.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'nodeproof.certificate' has no attribute {name!r}")
