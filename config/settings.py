"""Every setting of a deployment; the environment is read here and nowhere else.

The table in docs/operate.md lists the variables; each default suits one machine.
"""

import os
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import dj_database_url
from django.core.exceptions import ImproperlyConfigured
from django.utils.translation import gettext_lazy as _

from config import datadir

BASE_DIR = datadir.BASE_DIR
DATA_DIR = datadir.DATA_DIR


def env_str(name: str, default: str = "") -> str:
    return os.environ.get(name, "").strip() or default


def env_list(name: str, default: str = "") -> list[str]:
    return [item.strip() for item in env_str(name, default).split(",") if item.strip()]


def env_int(name: str, default: int, least: int = 0) -> int:
    text = env_str(name, str(default))
    if not text.isdigit() or int(text) < least:
        kind = f"a whole number from {least} on" if least else "a whole number"
        raise ImproperlyConfigured(f"{name} must be {kind}, not {text!r}.")
    return int(text)


def env_bool(name: str, default: bool) -> bool:
    text = env_str(name, "1" if default else "0").lower()
    if text not in {"0", "1", "false", "true", "no", "yes"}:
        raise ImproperlyConfigured(f"{name} must be 0 or 1, not {text!r}.")
    return text in {"1", "true", "yes"}


def env_choice(name: str, default: str, choices: str) -> str:
    text = env_str(name, default)
    if text not in choices.split():
        raise ImproperlyConfigured(f"{name} must be one of {choices}, not {text!r}.")
    return text


def env_read(name: str, default: str, read: Callable[[str], Any]) -> Any:
    """What a parser makes of it that raises ValueError."""
    try:
        return read(env_str(name, default))
    except ValueError as error:
        raise ImproperlyConfigured(f"{name} cannot be read: {error}.") from error


def address(text: str) -> str:
    if text and not text.startswith(("https://", "http://")):
        raise ValueError("it begins with https:// or http://")
    return text.rstrip("/")


def port(text: str) -> int:
    if not 0 < int(text) < 65536:
        raise ValueError("it is from 1 to 65535")
    return int(text)


def broker(text: str) -> str:
    """Addresses between semicolons, whose ports can be told: no # in a password."""
    for address in text.split(";"):
        _ = urlsplit(address).port
    return text


def read_secret_key() -> str:
    key = env_str("SECRET_KEY") or datadir.secret_key()
    if not key:
        raise ImproperlyConfigured(
            "SECRET_KEY is not set and DATA_DIR holds no key: set SECRET_KEY, "
            "or run `.venv/bin/python manage.py up` once, which makes one."
        )
    return key


# --- the site -----------------------------------------------------------------
DEBUG = env_bool("DEBUG", False)
SECRET_KEY = read_secret_key()
HOST = env_str("HOST", "127.0.0.1")
PORT = env_read("PORT", "8000", port)
SITE_URL = env_read("SITE_URL", "", address)
# Where readers report about a record: the page of its issues is below it.
REPOSITORY_URL = env_read("REPOSITORY_URL", "", address)
ALLOWED_HOSTS = env_list("ALLOWED_HOSTS", "localhost,127.0.0.1,[::1]")
CSRF_TRUSTED_ORIGINS = env_list("CSRF_TRUSTED_ORIGINS")
NUM_PROXIES = env_int("NUM_PROXIES", 0)

# --- runs ---------------------------------------------------------------------
BUILDS = [Path(path) for path in env_read("BUILDS", "", shlex.split)]
# What `make run` was called in; a torch there is used where it is, and never changed.
ACTIVE_ENVIRONMENTS = {
    "VIRTUAL_ENV": env_str("VIRTUAL_ENV"),
    "CONDA_PREFIX": env_str("CONDA_PREFIX"),
    "CALLING_PYTHON": env_str("CALLING_PYTHON"),
}
BUILDS_DIR = Path(env_str("BUILDS_DIR", str(DATA_DIR / "builds"))).absolute()
BUILDS_FILE = BASE_DIR / "fixtures" / "builds.toml"
# In place of the index in BUILDS_FILE; "none" for no such index.
TORCH_INDEX_URL = env_str("TORCH_INDEX_URL")
# Layers of the sandbox not to use: runner.sandbox.LAYERS.
SANDBOX_WITHOUT = env_list("SANDBOX_WITHOUT")
# Whether runs may be root, as the worker is: on a machine that may be thrown away.
SANDBOX_ALLOW_SHARED_ROOT = env_bool("SANDBOX_ALLOW_SHARED_ROOT", False)
SANDBOX_MIN_TIER = env_choice("SANDBOX_MIN_TIER", "B", "A B C D")
RUNS_ANONYMOUS = env_bool("RUNS_ANONYMOUS", True)
FRESH_HOURS = env_int("FRESH_HOURS", 24)
# A worker that says nothing for so long has lost its run.
LEASE_SECONDS = env_int("LEASE_SECONDS", 10, least=1)
MAX_QUEUED = env_int("MAX_QUEUED", 500)
QUEUED_PER_REQUESTER = env_int("QUEUED_PER_REQUESTER", 20)
RUNNING_PER_REQUESTER = env_int("RUNNING_PER_REQUESTER", 2)
RUNS_PER_HOUR = env_int("RUNS_PER_HOUR", 120)
EVIDENCE_PER_HOUR = env_int("EVIDENCE_PER_HOUR", 600)
LOG_DAYS = env_int("LOG_DAYS", 90)
RUN_DAYS = env_int("RUN_DAYS", 365)
# How long a page may be answered from memory while nothing it shows changes; 0: never.
PAGE_CACHE_SECONDS = env_int("PAGE_CACHE_SECONDS", 60)
POOL_MEMORY_MIB = env_int("POOL_MEMORY_MIB", 2048)
ISSUES_DIR = BASE_DIR / "fixtures" / "issues"
EXECUTED_FILE = BASE_DIR / "fixtures" / "executed.json"

# --- access -------------------------------------------------------------------
READ_LOGIN = env_bool("READ_LOGIN", False)
# A header with the user's name, set by a proxy that lets nobody else send it.
REMOTE_USER_HEADER = env_str("REMOTE_USER_HEADER")
REMOTE_USER_GROUP = env_str("REMOTE_USER_GROUP", "runner")
REMOTE_USER_STAFF = env_bool("REMOTE_USER_STAFF", False)
METRICS_TOKEN = env_str("METRICS_TOKEN")
LOGIN_URL = "login"
LOGIN_REDIRECT_URL = "front"
AUTHENTICATION_BACKENDS = ["django.contrib.auth.backends.ModelBackend"]
if REMOTE_USER_HEADER:
    AUTHENTICATION_BACKENDS.insert(0, "config.access.ProxyUserBackend")

# --- Django -------------------------------------------------------------------
INSTALLED_APPS = [
    "whitenoise.runserver_nostatic",
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "django.contrib.sitemaps",
    "rest_framework",
    "drf_spectacular",
    "kb",
    "runner",
]
MIDDLEWARE = [
    "config.middleware.RequestIdMiddleware",
    "django.middleware.security.SecurityMiddleware",
    "config.middleware.ContentSecurityPolicyMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "config.middleware.CompressionMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "config.i18n.LocaleMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "config.access.ProxyUserMiddleware",
    "config.access.ReadLoginMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "config.page_cache.PageCacheMiddleware",
]
ROOT_URLCONF = "config.urls"
WSGI_APPLICATION = "config.wsgi.application"
TEST_RUNNER = "tests.support.django_runner.Runner"
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.template.context_processors.i18n",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                "kb.pages.context.site",
            ],
        },
    },
]
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
# A web thread keeps its connection for a minute: opening one took a sixth of the
# processor time of a look-up.
SQLITE = f"sqlite:///{quote(str(DATA_DIR / 'db.sqlite3'))}"
DATABASE = env_read("DATABASE_URL", SQLITE, dj_database_url.parse)
DATABASES = {"default": DATABASE | {"CONN_MAX_AGE": 60, "CONN_HEALTH_CHECKS": True}}
if DATABASES["default"]["ENGINE"] == "django.db.backends.sqlite3":
    # A file does not go away as a server does; the check is a statement a request.
    DATABASES["default"]["CONN_HEALTH_CHECKS"] = False
    # Writers queue instead of failing: web and worker share the file.
    DATABASES["default"]["OPTIONS"] = {
        "timeout": 20,
        "transaction_mode": "IMMEDIATE",
        "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;",
    }

# In each web process: pages that all strangers get (config.page_cache), packed, of some
# 20 kB each.
LOCAL_MEMORY = "django.core.cache.backends.locmem.LocMemCache"
NO_MEMORY = "django.core.cache.backends.dummy.DummyCache"
CACHES = {
    "default": {"BACKEND": LOCAL_MEMORY},
    "pages": {
        "BACKEND": LOCAL_MEMORY,
        "LOCATION": "pages",
        "OPTIONS": {"MAX_ENTRIES": 500},
    },
    # What all pages have alike ({% cache %}); read anew where templates are written.
    "template_fragments": {
        "BACKEND": NO_MEMORY if DEBUG else LOCAL_MEMORY,
        "LOCATION": "template_fragments",
    },
}

# --- languages ----------------------------------------------------------------
LANGUAGE_CODE = "en"
LANGUAGES = [("en", _("English")), ("zh-hans", _("Chinese"))]
LOCALE_PATHS = [BASE_DIR / "config" / "locale"]
TIME_ZONE = "UTC"

# --- static files -------------------------------------------------------------
STATIC_URL = "/static/"
STATIC_ROOT = DATA_DIR / "static"
STATICFILES_DIRS = [BASE_DIR / "static"]
STATICFILES_FINDERS = [
    "django.contrib.staticfiles.finders.FileSystemFinder",
    "django.contrib.staticfiles.finders.AppDirectoriesFinder",
    "runner.takeaway.probe.ProbeFinder",
]
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {
        "BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"
        if DEBUG
        else "kb.pages.style_sheets.JoiningStorage"
    },
}

# --- security -----------------------------------------------------------------
HTTPS = SITE_URL.startswith("https://")
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = HTTPS
SECURE_SSL_REDIRECT = HTTPS
# Who asks after the site's health asks the web server itself, not the proxy.
SECURE_REDIRECT_EXEMPT = ["^(healthz|readyz|metrics)$"]
SECURE_HSTS_SECONDS = 31536000 if HTTPS else 0
# A promise for every name of the domain, which browsers keep for years once it is
# in their list: whoever runs the site gives it, and Django need not ask for it.
HSTS_PRELOAD = HTTPS and env_bool("HSTS_PRELOAD", False)
SECURE_HSTS_INCLUDE_SUBDOMAINS = SECURE_HSTS_PRELOAD = HSTS_PRELOAD
SILENCED_SYSTEM_CHECKS = ["security.W005", "security.W021"]
SECURE_PROXY_SSL_HEADER = (
    ("HTTP_X_FORWARDED_PROTO", "https") if HTTPS and NUM_PROXIES else None
)
# A pasted log may be 1 MiB of text; form encoding can triple it.
DATA_UPLOAD_MAX_MEMORY_SIZE = 4 * 1024 * 1024
CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)

# --- API ----------------------------------------------------------------------
REST_FRAMEWORK = {
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
    "DEFAULT_PARSER_CLASSES": ["kb.api.parsers.BoundedJSONParser"],
    "DEFAULT_AUTHENTICATION_CLASSES": [
        "runner.api.tokens.TokenAuthentication",
        "rest_framework.authentication.SessionAuthentication",
    ],
    "DEFAULT_PERMISSION_CLASSES": ["runner.api.rules.ByRule"],
    "URL_FORMAT_OVERRIDE": None,
    "DEFAULT_SCHEMA_CLASS": "drf_spectacular.openapi.AutoSchema",
    "EXCEPTION_HANDLER": "kb.problems.exception_handler",
    "NUM_PROXIES": NUM_PROXIES,
}
SPECTACULAR_SETTINGS = {
    "TITLE": "Does it NaN?",
    "VERSION": "1",
    "OAS_VERSION": "3.1.0",
    "ENUM_GENERATE_CHOICE_DESCRIPTION": False,
    "POSTPROCESSING_HOOKS": ["config.api_schema.completed"],
}

# --- Celery -------------------------------------------------------------------
CELERY_BROKER_URL = env_read(
    "CELERY_BROKER_URL", f"kbfs://{quote(str(DATA_DIR))}/broker", broker
)
CELERY_TASK_IGNORE_RESULT = True
CELERY_TASK_ACKS_LATE = True
CELERY_WORKER_PREFETCH_MULTIPLIER = 1
# `celery inspect` takes a broker that can tell all workers; a folder cannot.
CELERY_WORKER_ENABLE_REMOTE_CONTROL = not CELERY_BROKER_URL.startswith("kbfs:")
CELERY_WORKER_HIJACK_ROOT_LOGGER = False
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
CELERY_BROKER_CONNECTION_MAX_RETRIES = None  # a broker may be away for a weekend
# For sites that share a broker: before the name of every queue.
QUEUE_PREFIX = env_str("QUEUE_PREFIX")
CELERY_CONTROL_EXCHANGE = f"{QUEUE_PREFIX}celery"
# What is periodic. Every worker says when; whoever takes it does it once for all.
HOUR_S = 3600
CELERY_BEAT_SCHEDULE = {
    name: {
        "task": f"runner.{name}",
        "schedule": HOUR_S,
        "options": {"queue": f"{QUEUE_PREFIX}chores", "expires": HOUR_S},
    }
    for name in ("prune", "forget_captures")
}
CELERY_BROKER_TRANSPORT_OPTIONS = {
    "amqp": {"confirm_publish": True},
    # Above the longest run; all who share a Redis database take the shortest.
    "redis": {"visibility_timeout": 3600, "global_keyprefix": QUEUE_PREFIX},
}.get(CELERY_BROKER_URL.partition(":")[0].replace("rediss", "redis"), {})

# --- logging ------------------------------------------------------------------
LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {
        "plain": {"format": "%(asctime)s %(levelname)s %(name)s %(message)s"}
    },
    "handlers": {"console": {"class": "logging.StreamHandler", "formatter": "plain"}},
    "root": {"handlers": ["console"], "level": "WARNING"},
    "loggers": {
        "runner": {"level": "INFO"},
        "kb": {"level": "INFO"},
        "config": {"level": "INFO"},
        # Strangers send any Host header; each would leave a traceback here.
        "django.security.DisallowedHost": {"level": "CRITICAL"},
    },
}
