# Everything a developer calls. `make help` lists it.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.DEFAULT_GOAL := help
.PHONY: help setup run fmt lint types layers test check e2e bench chaos schema compatibility build clean

help: ## list the targets
	@grep -hE '^[a-z0-9]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | sort

setup: $(STAMP) ## make .venv with everything that is needed

$(STAMP): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "supervisor needs Python 3.11 or newer; say which: make setup PYTHON=/path/to/python3.12" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade 'pip>=25.1'
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable . --group dev
	env -u PYTHONDONTWRITEBYTECODE $(BIN)/python -m compileall -q supervisor
	@touch $@

run: $(STAMP) ## show the main job live, in a throw-away state root
	@$(BIN)/python -P -m supervisor.demo.tour

fmt: $(STAMP) ## format
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

lint: $(STAMP) ## lint and check the format
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(STAMP) ## mypy --strict
	$(BIN)/mypy

layers: $(STAMP) ## imports go only down
	$(BIN)/lint-imports

test: $(STAMP) ## all tests but those that need real agent CLIs
	$(BIN)/python -m pytest -q -n 2

check: lint types layers test ## lint, types, layers, tests

e2e: $(STAMP) ## install the real agent CLIs from npm into .clis and drive them against a fake model on loopback
	$(BIN)/python -m tests.e2e_real.clis
	$(BIN)/python -m tests.e2e_real.offline $(BIN)/python -m pytest -q -n 2 -m real tests/e2e_real

bench: $(STAMP) ## measure, beside peers
	$(BIN)/python -m tests.bench

chaos: $(STAMP) ## 2,000 random faults on 51 agents, then what must hold (SEED=…, 10 min; CHAOS=--quick: 1 min)
	$(BIN)/python -m tests.chaos --seed $(or $(SEED),2026) --faults 2000 $(CHAOS)

schema: $(STAMP) ## write launch_profiles/schema.json from the types
	$(BIN)/supervisor profiles schema > launch_profiles/schema.json

compatibility: $(STAMP) ## write docs/reference/compatibility.md from the shipped profiles
	$(BIN)/python -m tests.compatibility > docs/reference/compatibility.md

build: $(STAMP) ## wheel and sdist into dist/
	$(BIN)/python -m pip wheel --quiet --no-deps --wheel-dir dist .

clean: ## remove what was generated
	rm -rf $(VENV) .clis dist build bench-results chaos-results .mypy_cache .ruff_cache .pytest_cache .hypothesis
