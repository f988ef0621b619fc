"""How the parts are wired for a deployment."""

from config.celery import app as celery_app

__all__ = ["celery_app"]
