"""Which releases the package indexes offer, as pip lists them."""

from __future__ import annotations

from unittest import mock

from django.test import SimpleTestCase

from runner.builds import index
from runner.builds.probe import BuildError


class IndexTest(SimpleTestCase):
    def test_final_releases_each_once_oldest_first(self) -> None:
        listed = ["2.10.0", "2.9.1", "2.13.0+cpu", "2.13.0", "2.0.0rc1", "nonsense"]
        found = [str(version) for version in index.final(index.each_once(listed))]
        self.assertEqual(found, ["2.9.1", "2.10.0", "2.13.0"])

    def test_pip_that_may_ask_nobody_is_not_asked(self) -> None:
        with (
            mock.patch.dict("os.environ", {"PIP_NO_INDEX": "1"}),
            self.assertRaisesRegex(BuildError, "no-index"),
        ):
            index.releases()
