"""Certificates: proofs that a labelling is the best of all, or how far from it it can be."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nodeproof.certificate.certifying import certify
    from nodeproof.certificate.program import ProgramCertificate, certify_program
    from nodeproof.certificate.result import Certificate
    from nodeproof.certificate.searching import Stage

__all__ = ["Certificate", "ProgramCertificate", "Stage", "certify", "certify_program"]

_HOMES = {
    "Certificate": "result",
    "ProgramCertificate": "program",
    "Stage": "searching",
    "certify": "certifying",
    "certify_program": "program",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(f"nodeproof.certificate.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'nodeproof.certificate' has no attribute {name!r}")
