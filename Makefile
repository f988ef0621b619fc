# Everything starts here; `make help` lists it. PYTHON may name another Python.
PYTHON ?= python3
PY := .venv/bin/python
ISOLATED := --exclude-tag servers --exclude-tag browser
LOCK := $(PY) -m piptools compile --quiet --generate-hashes --no-emit-index-url \
	--no-emit-find-links --no-header --strip-extras --allow-unsafe pyproject.toml

.PHONY: help run dev check test test-all bench lock clean

help:  ## this list
	@sed -n 's/^\([a-z-]*\):.*## /\1|/p' Makefile | \
		while IFS='|' read -r name text; do printf '  make %-10s %s\n' "$$name" "$$text"; done

run:  ## the site: installs what is missing, then PORT=8000 HOST=127.0.0.1
	@$(PYTHON) config/bootstrap.py run $(if $(CUDA),--cuda)

dev:  ## the environment for work on the code, and the default torch build
	@$(PYTHON) config/bootstrap.py dev
	@$(PY) manage.py builds add --install-only $(if $(CUDA),--cuda)

check: dev  ## lint, types, templates and migrations
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) -m mypy
	find templates -name '*.html' -exec .venv/bin/djade --check --target-version 5.2 {} +
	$(PY) manage.py makemigrations --check --dry-run

test: check  ## checks, then every test that needs no server and no browser
	$(PY) manage.py test --parallel auto $(ISOLATED) $(TESTS)

test-all: dev  ## the rest: tests against database servers, brokers and a browser
	$(PY) manage.py test --tag servers --tag browser $(TESTS)

bench: dev  ## figures as JSON and as a table
	$(PY) -m tests.bench

lock: dev  ## requirements*.txt from pyproject.toml (UPGRADE=1 for newer releases)
	$(LOCK) $(if $(UPGRADE),--upgrade) --output-file requirements.txt
	$(LOCK) $(if $(UPGRADE),--upgrade) --extra dev --constraint requirements.txt \
		--output-file requirements-dev.txt

clean:  ## removes the environments, never the data in var/
	rm -rf .venv .mypy_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
