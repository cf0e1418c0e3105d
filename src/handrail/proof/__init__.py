"""It holds at every state of a region, or here is one where it does not."""

from handrail.proof.branch_and_bound import Budget, Leaves, Watch
from handrail.proof.certificate import Certificate, Certificates
from handrail.proof.certificate_file import (
    sealed_certificates,
    verify_certificates,
    write_certificates,
)
from handrail.proof.judgement import certify
from handrail.proof.margin import at_least, at_most
from handrail.proof.question import provable_layers
from handrail.proof.remainder import Remainder
from handrail.proof.renewal import FewCells, Renewal

__all__ = [
    "Budget",
    "Certificate",
    "Certificates",
    "FewCells",
    "Leaves",
    "Remainder",
    "Renewal",
    "Watch",
    "at_least",
    "at_most",
    "certify",
    "provable_layers",
    "sealed_certificates",
    "verify_certificates",
    "write_certificates",
]
