"""The tables of the knowledge base. They import nothing of kb but words.

kb knows of execution only `Finding`: runner writes it, kb reads it. Rows change behind
the doors `kb.publishing.saving` and `kb.findings.writing`.
"""

from kb.models.finding import Finding
from kb.models.record import Claim, Record, Repro
from kb.models.search import (
    SearchDocument,
    SearchState,
)
from kb.models.standing import Flip, Standing, TallyState, TestedBuild
from kb.models.symptom import Law, Symptom

__all__ = [
    "Claim",
    "Finding",
    "Flip",
    "Law",
    "Record",
    "Repro",
    "SearchDocument",
    "SearchState",
    "Standing",
    "Symptom",
    "TallyState",
    "TestedBuild",
]
