"""Whether somebody who subscribed wants to hear of a change."""

from __future__ import annotations

from dataclasses import dataclass

from kb.environments.environment import Environment, parse_environment
from kb.models import Change, Record, Subscription
from kb.versions.affected import answer_for
from kb.versions.ranges import parse_version

Kind = Subscription.Kind


@dataclass(frozen=True)
class Concern:
    """A change and its record, with findings."""

    change: Change
    record: Record

    def concerns(self, subscription: Subscription) -> bool:
        if subscription.kind == Kind.EVERYTHING:
            return True
        if subscription.kind == Kind.RECORD:
            return subscription.record_id == self.record.pk
        if subscription.kind == Kind.COMPONENT:
            return subscription.component in self.record.components
        return self.is_of(parse_environment(subscription.environment))

    def is_of(self, env: Environment) -> bool:
        """It turned on the release that is installed, or is of a bug which that has.

        So whoever has the bug hears of the release that ends it.
        """
        if env.torch_raw and is_same_release(self.change.build_raw, env.torch_raw):
            return True
        answer = answer_for(self.record, env, self.record.findings.all())
        return bool(answer.is_affected)


def is_same_release(raw: str, other: str) -> bool:
    ours, theirs = parse_version(raw).version, parse_version(other).version
    return bool(ours and theirs and ours.public == theirs.public)
