from django.apps import AppConfig
from django.utils.translation import gettext_lazy as _

from kb.rules import findings
from portable.harness import checks


class KbConfig(AppConfig):
    name = "kb"
    verbose_name = _("Knowledge base")

    def ready(self) -> None:
        # Rules travel without the harness; there they run in one thread.
        findings.parsing = checks.parsing
