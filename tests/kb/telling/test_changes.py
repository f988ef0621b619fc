"""Each flip is kept once, and each subscriber hears once of what comes after."""

from __future__ import annotations

from typing import Any
from unittest import mock

from django.contrib.auth.models import User

from kb.models import Change, Delivery, Subscription, Webhook
from kb.publishing import saving
from kb.telling import changes
from tests.kb.releases.test_comparison import ComparisonCase

Kind = Subscription.Kind


class TellingCase(ComparisonCase):
    def setUp(self) -> None:
        super().setUp()
        self.webhook = Webhook.objects.create(
            name="ours", address="https://receiver.example/hook", secret="whsec_x"
        )
        self.user = User.objects.create_user("ada", "ada@example.org")

    def subscribe(self, kind: str = Kind.EVERYTHING, **facts: Any) -> Subscription:
        who = {} if "user" in facts else {"webhook": self.webhook}
        return changes.subscribe(kind=kind, **who, **facts)[0]

    def told(self) -> list[str]:
        rows = Delivery.objects.select_related("change").order_by("change_id")
        return [str(row.change) for row in rows]

    def turn(self, at: int = 0) -> None:
        self.verdicts(at, v2_5_1=True, v2_6_0=False)


class ChangesTest(TellingCase):
    def test_who_subscribes_hears_of_what_comes_after(self) -> None:
        self.turn()
        self.subscribe()
        self.assertEqual(changes.note(), 0)
        self.turn(1)
        self.assertEqual(changes.note(), 1)
        self.assertEqual(changes.note(), 0)
        self.assertEqual(self.told(), ["NAN-9002 first_good in 2.6.0-cpu"])

    def test_a_flip_that_is_computed_anew_or_comes_back_is_told_once(self) -> None:
        self.subscribe()
        self.turn()
        changes.note()
        saving.save(self.records[0])
        changes.note()
        self.verdicts(0, v2_5_1=True)
        changes.note()
        self.verdicts(0, v2_4_1=True, v2_5_1=True, v2_6_0=False)
        changes.note()
        self.assertEqual(len(self.told()), 1)

    def test_a_kill_keeps_neither_the_change_nor_half_of_its_messages(self) -> None:
        self.subscribe()
        self.turn()
        killed = mock.patch.object(
            Delivery.objects, "bulk_create", side_effect=SystemExit
        )
        with killed, self.assertRaises(SystemExit):
            changes.note()
        self.assertFalse(Change.objects.exists())
        self.assertEqual(changes.note(), 1)

    def test_two_reasons_are_one_message(self) -> None:
        self.subscribe()
        self.subscribe(Kind.RECORD, record=self.records[0])
        self.subscribe(Kind.RECORD, record=self.records[0], user=self.user)
        self.turn()
        self.assertEqual(changes.note(), 2)

    def test_an_equal_subscription_is_no_second_one(self) -> None:
        self.assertEqual(self.subscribe(), self.subscribe())

    def test_who_watches_what_hears_of_that_alone(self) -> None:
        self.records[0].components = ["sdpa"]
        saving.save(self.records[0])
        self.subscribe(Kind.COMPONENT, component="sdpa")
        self.subscribe(Kind.RECORD, record=self.records[2])
        for at in range(3):
            self.turn(at)
        changes.note()
        self.assertEqual(
            self.told(),
            ["NAN-9001 first_good in 2.6.0-cpu", "NAN-9003 first_good in 2.6.0-cpu"],
        )

    def test_an_environment_hears_of_its_release_and_of_bugs_it_has(self) -> None:
        self.subscribe(Kind.ENVIRONMENT, environment="torch==2.5.1+cpu\nnumpy==2.0\n")
        # It has this bug, and 2.6.0 ends it.
        self.turn(0)
        # A verdict turned on the very release.
        self.verdicts(1, v2_4_1=True, v2_5_1=False)
        # Neither.
        self.verdicts(2, v2_5_1=False, v2_6_0=True)
        changes.note()
        self.assertEqual(
            self.told(),
            ["NAN-9001 first_good in 2.6.0-cpu", "NAN-9002 first_good in 2.5.1-cpu"],
        )
