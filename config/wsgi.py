"""The web server's entry point."""

import os

from django.core.wsgi import get_wsgi_application
from django.urls import get_resolver

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
application = get_wsgi_application()
# Pages are imported before the first of them is asked for, not while somebody waits.
get_resolver().url_patterns  # noqa: B018
