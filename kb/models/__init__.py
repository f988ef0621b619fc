"""The tables of the knowledge base. They import nothing of kb but words.

kb knows of execution only `Finding`: runner writes it, kb reads it. Rows change behind
the doors `kb.publishing.saving` and `kb.findings.writing`.
"""

from kb.models.finding import Finding
from kb.models.record import Claim, Record, Repro
from kb.models.search import (
    SearchDocument,
    SearchKey,
    SearchRemoved,
    SearchState,
    SearchTerm,
)
from kb.models.shared import SharedAnswer
from kb.models.standing import Flip, Standing, TallyState, TestedBuild
from kb.models.symptom import Symptom
from kb.models.telling import Change, ChangeState, Delivery, Subscription, Webhook

__all__ = [
    "Change",
    "ChangeState",
    "Claim",
    "Delivery",
    "Finding",
    "Flip",
    "Record",
    "Repro",
    "SearchDocument",
    "SearchKey",
    "SearchRemoved",
    "SearchState",
    "SearchTerm",
    "SharedAnswer",
    "Standing",
    "Subscription",
    "Symptom",
    "TallyState",
    "TestedBuild",
    "Webhook",
]
