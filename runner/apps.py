from typing import Any

from django.apps import AppConfig
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.db.models.signals import post_migrate
from django.utils.translation import gettext_lazy as _

from runner import sandbox


class RunnerConfig(AppConfig):
    name = "runner"
    verbose_name = _("Builds and runs")

    def ready(self) -> None:
        post_migrate.connect(make_groups, sender=self)
        configure_sandbox()


def configure_sandbox() -> None:
    """Tell the sandbox the settings. Raises ImproperlyConfigured."""
    hidden = {str(settings.BASE_DIR), str(settings.DATA_DIR)}
    try:
        sandbox.configure(
            settings.SANDBOX_WITHOUT,
            sorted(hidden),
            allow_shared_root=settings.SANDBOX_ALLOW_SHARED_ROOT,
        )
    except ValueError as error:
        raise ImproperlyConfigured(f"SANDBOX_WITHOUT: {error}") from error


def make_groups(**options: Any) -> None:
    """The groups of runner.access, once their permissions exist."""
    # Models cannot be imported before every app is ready.
    from runner.access import ensure_groups

    ensure_groups(**options)
