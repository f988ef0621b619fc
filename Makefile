# Everything starts here; `make help` lists it. PYTHON may name another Python.
PYTHON ?= python3
PY := .venv/bin/python
ISOLATED := --exclude-tag servers --exclude-tag browser --exclude-tag gauntlet
# Two processes a core: tests wait for the processes they start half of their time.
PARALLEL ?= $(shell expr 2 '*' $$(getconf _NPROCESSORS_ONLN))
POSTGRES ?= postgres://postgres@127.0.0.1:5432
# Runs of root have users and control groups of their own.
AS_ROOT := tests.runner.sandbox tests.runner.pool tests.runner.builds.test_compile_seed
ATTACKS := \
	tests.project.test_closed tests.project.test_page_cache \
	tests.project.test_serving tests.project.test_slow_clients \
	tests.project.test_outage tests.kb.pages.test_theme tests.runner.agents.test_http \
	tests.kb.lookup.test_slots tests.api.test_access tests.api.test_cut_off tests.api.test_fuzz \
	tests.runner.evidence.test_sent tests.runner.evidence.test_sent_builds \
	tests.runner.evidence.test_shape tests.kb.records.test_unseen \
	tests.runner.evidence.test_bombs tests.kb.rules.test_hostile \
	tests.project.test_hostile_captures \
	tests.runner.captures.test_keeping tests.runner.captures.test_running \
	tests.runner.runs.test_queue_access tests.runner.runs.test_joining \
	tests.runner.runs.test_chaos \
	tests.runner.pool.test_pool.CompilerTest \
	tests.runner.sandbox.test_hostile tests.runner.sandbox.test_jail \
	tests.runner.sandbox.test_shared_user
# For every Python from 3.11 on at once. What is pinned already stays, unless UPGRADE=1.
LOCK := .venv/bin/uv pip compile --quiet --universal --python-version 3.11 \
	--generate-hashes --no-emit-index-url --no-emit-find-links --no-header \
	$(if $(UPGRADE),--upgrade) pyproject.toml
EXTRAS := mcp redis

.PHONY: help run dev check check-types check-rest test test-root test-all test-postgres test-on-postgres test-servers \
	test-corpus test-fuzz test-browser gauntlet attack bench client lock clean

help:  ## this list
	@sed -n 's/^\([a-z-]*\):.*## /\1|/p' Makefile | \
		while IFS='|' read -r name text; do printf '  make %-13s %s\n' "$$name" "$$text"; done

run:  ## installs what is missing and starts the site (PORT=8000 HOST=127.0.0.1)
	@$(PYTHON) config/bootstrap.py run $(if $(CUDA),--cuda)

dev:  ## makes the environment of developers, and installs the default torch build
	@$(PYTHON) config/bootstrap.py dev
	@$(PY) manage.py builds add --install-only --yes $(if $(CUDA),--cuda)

check: dev  ## lint, types, templates, styles and migrations
	@$(MAKE) --no-print-directory --jobs 2 --output-sync=target check-types check-rest

# Types take one core; all the rest takes another one half as long.
check-types:
	$(PY) -m mypy

check-rest:
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	find templates -name '*.html' -exec .venv/bin/djade --check --target-version 5.2 {} +
	$(PY) manage.py test -v0 tests.project.test_templates tests.project.test_styles
	$(PY) manage.py makemigrations --check --dry-run

test: check  ## checks, then every test that needs no server and no browser
	$(PY) manage.py test --parallel $(PARALLEL) $(ISOLATED) $(TESTS)

test-root: dev  ## as root: the tests in which root's runs have other layers and users
	$(PY) manage.py test --parallel $(PARALLEL) $(ISOLATED) $(AS_ROOT)

test-all: dev  ## the rest: tests against database servers, brokers and a browser
	@$(MAKE) --no-print-directory --jobs 5 --output-sync=target \
		test-on-postgres test-servers test-corpus test-fuzz test-browser

# Each of the five waits much of its time, so they share the cores. None makes the
# environment: what calls them has done so.
test-servers:
	$(PY) manage.py test --tag servers --exclude-tag corpus --exclude-tag fuzz \
		--exclude-tag gauntlet $(TESTS)

# Nearly every shipped repro, hostile programs in every tier, every line under every Python.
test-corpus:
	$(PY) manage.py test --tag corpus $(TESTS)

test-fuzz:
	$(PY) manage.py test --tag fuzz $(TESTS)

test-browser:
	$(PY) manage.py test --tag browser --exclude-tag servers $(TESTS)

# Without tests that say the same on any database, as those that start a site of their own.
test-postgres: dev test-on-postgres  ## the tests of make test on POSTGRES, if it answers

test-on-postgres:
	@if $(PY) -m tests.support.servers $(POSTGRES); then \
		DATABASE_URL=$(POSTGRES)/doesitnan $(PY) manage.py test --noinput \
			--parallel $(PARALLEL) --database-only $(ISOLATED) --exclude-tag any_database $(TESTS); \
	fi

gauntlet: dev  ## too long for CI: hostile programs in every tier, every repro warm and cold
	$(PY) manage.py test --tag gauntlet $(TESTS)

attack: dev  ## the attacks that docs/security.md lists, on loopback only
	$(PY) manage.py test --exclude-tag gauntlet $(ATTACKS)

bench: dev  ## figures as JSON and as a table (ONLY=search: one section)
	$(PY) -m tests.bench

client:  ## the client as a wheel in dist/ (SITE=https://…: the site that lookup contacts)
	@$(PYTHON) config/bootstrap.py client
	@$(PY) manage.py build_client $(if $(SITE),--site $(SITE))

lock: dev  ## writes requirements*.txt from pyproject.toml (UPGRADE=1: newer releases)
	$(LOCK) --output-file requirements.txt
	for extra in $(EXTRAS); do \
		$(LOCK) --constraint requirements.txt --extra $$extra \
			--output-file requirements-$$extra.txt || exit; \
	done
	$(LOCK) --constraint requirements-mcp.txt --constraint requirements-redis.txt \
		--extra dev --output-file requirements-dev.txt

clean:  ## removes the environments, never the data in var/
	rm -rf .venv .mypy_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
