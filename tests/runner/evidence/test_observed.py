"""Names in a repro's header that no check reports: found, without false alarm."""

import re

from django.conf import settings
from django.test import SimpleTestCase

from kb.publishing.loading import ReproRefused
from portable import harness
from runner.evidence.observed import asked, unreported
from runner.evidence.repros import inspect
from tests.support import runs


def found(bug: str, body: str) -> list[str]:
    header = harness.Header("upstream_bug", "cpu", (bug,))
    return unreported(header, body)


class ObservedTest(SimpleTestCase):
    def test_a_slip_in_any_of_them_is_found(self) -> None:
        count = 0
        for path in sorted(settings.ISSUES_DIR.glob("*/repro*.py")):
            source = path.read_text()
            head, mark, rest = source.partition("# ///\n")
            for key, name in asked(harness.read_repro(source)[0]):
                spoilt = re.sub(rf"\b{name}\b", f"{name}x", head)
                count += 1
                with self.subTest(path.parent.name, key=key):
                    with self.assertRaises(ReproRefused) as caught:
                        inspect(f"{spoilt}{mark}{rest}")
                    self.assertIn(f"'{name}x'", str(caught.exception))
                    self.assertIn(f'did you mean "{name}"?', str(caught.exception))
        self.assertGreater(count, 150)

    def test_names_that_are_put_together_are_not_accused(self) -> None:
        for body in (
            "{f'grad_{name}': 1}",
            "{'grad_' + name: 1}",
            "{name + '_norm': 1}",
            "{'grad_%s' % name: 1}",
            "{'grad_{}'.format(name): 1}",
            "dict(grad_norm=1)",
            "dict(zip('loss grad_norm'.split(), values))",
            "grad_norm = 1; vars()",
        ):
            self.assertEqual(found("grad_norm > 0", body), [], body)
            self.assertEqual(len(found("else_where > 0", body)), 1, body)

    def test_texts_that_the_harness_reserves_are_known(self) -> None:
        self.assertEqual(found('ran == "cudnn"', "pass"), [])

    def test_the_sentence_names_key_and_name(self) -> None:
        text = runs.source().replace("match = {grad", "match = {gard")
        with self.assertRaises(ReproRefused) as caught:
            inspect(text)
        (error,) = caught.exception.errors
        self.assertTrue(error.startswith("tool.doesitnan.match: "), error)
        self.assertIn("'gard'", error)
        self.assertIn('did you mean "grad"?', error)
