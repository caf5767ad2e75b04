# Everything that is done to this project is a target here; `make` alone lists them.
# PYTHON chooses the interpreter that .venv is made with; ARGS is handed on: make run ARGS=--dry-run

PYTHON ?= python3
ARGS ?=
VENV := .venv
FOLDERS := blocks tasks flows deployments benchmarks
LOG := $(VENV)/setup.log

# .locked is a copy of the lock that .venv was filled from; .ready says that the project itself was put in after it.
# Both are the last thing their step does, so an interrupted step leaves none and is done again from its beginning.
LOCKED := $(VENV)/.locked
READY := $(VENV)/.ready

# A .venv whose Python is gone, or that was copied or moved from another folder, is none.
FORGET := $(shell test -x $(VENV)/bin/python && grep -qsF '$(CURDIR)/$(VENV)' $(VENV)/pyvenv.cfg || echo forget)

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help setup run pure test test-all nightly lint types format bench lock up down clean forget

help: ## list what can be done
	@echo "make TARGET, where TARGET is one of"
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-9s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

setup: $(READY) ## make .venv and install what the lock names: 1 to 5 minutes the first time, then none
	@# Our bytecode too, since some machines forbid Python to write it on import. A broken file is for the tests to report.
	@$(VENV)/bin/python -m compileall -qq $(FOLDERS) || true

# Wheels only, because building one would bring in tools that no lock names. Filled from nothing whenever the lock has changed, so that what is installed is the lock and nothing else. A lock that
# was only touched (a checkout does that) changes nothing.
$(LOCKED): requirements.lock $(FORGET)
	@if cmp -s requirements.lock $@; then touch $@; exit 0; fi; \
	$(PYTHON) -c 'import sys, venv, ensurepip; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' 2>/dev/null || { \
	  echo "Tradewright needs Python 3.11, 3.12 or 3.13 with venv and ensurepip (Debian: python3-venv), but $(PYTHON) is" \
	    "$$($(PYTHON) -V 2>&1 | tail -n 1). Name another: make setup PYTHON=python3.12" >&2; exit 1; }; \
	rm -rf $(VENV) && \
	echo "[1/3] making $(VENV) with $$($(PYTHON) -V): some seconds" && \
	$(PYTHON) -m venv $(VENV) && \
	echo "[2/3] installing what requirements.lock names (1.3 GB on disk): 1 to 5 minutes; progress is in $(LOG)" && \
	{ $(VENV)/bin/python -m pip install --compile --only-binary :all: --require-hashes -r requirements.lock >$(LOG) 2>&1 || { \
	  grep -v '^WARNING' $(LOG) | tail -n 20 >&2; echo "pip failed; all it said is in $(LOG)" >&2; exit 1; }; } && \
	cp requirements.lock $@.part && mv $@.part $@

forget:
	@rm -f $(LOCKED)

$(READY): $(LOCKED) pyproject.toml
	@rm -f $@
	@echo "[3/3] installing the project itself, editable: some seconds"
	@$(VENV)/bin/python -m pip install --compile --no-build-isolation --no-deps --editable . >>$(LOG) 2>&1 || { \
	  grep -v '^WARNING' $(LOG) | tail -n 20 >&2; echo "pip failed; all it said is in $(LOG)" >&2; exit 1; }
	@touch $@
	@echo "ready: make run, or $(VENV)/bin/tradewright --help"

run: setup ## rebalance once: sample data, paper account, no model
	@$(VENV)/bin/tradewright run $(ARGS)

pure: setup ## the tests of the rules alone, with a tenth of the examples: under 15 seconds
	@TRADEWRIGHT_EXAMPLES_TIMES=0.1 $(VENV)/bin/python -m pytest -q $$(grep -l "mark.pure" tests/*.py) $(ARGS)

test: setup ## the tests for every change: under 10 minutes
	@$(VENV)/bin/python -m pytest -m "not slow" $(ARGS)

test-all: lint types ## lint, types, then every test, the slow ones too
	@$(VENV)/bin/python -m pytest $(ARGS)

nightly: setup ## every test with 34 times the examples (10,000 for the gate), and the store's chaos five times: hours
	@TRADEWRIGHT_EXAMPLES_TIMES=34 $(VENV)/bin/python -m pytest --timeout 7200 $(ARGS)
	@for turn in 1 2 3 4 5; do $(VENV)/bin/python -m pytest -q tests/test_store_chaos.py || exit 1; done

lint: setup ## ruff's rules
	@$(VENV)/bin/ruff check

types: setup ## mypy, strict
	@$(VENV)/bin/mypy

format: setup ## mend what ruff can mend by itself, and lay the code out
	@$(VENV)/bin/ruff check --fix-only --quiet
	@$(VENV)/bin/ruff format

bench: setup ## the measurements that the README quotes
	@$(VENV)/bin/python benchmarks/run.py $(ARGS)

# Extras are kept: where a dependency asks for httpx[http2] and the lock says httpx alone, pip takes the newest there is, and
# refuses it for having no hash, from the day that something newer than the lock is out.
# Only wheels are installed, and cryptography has had none for Macs with an Intel processor since 49. Both lines are
# needed: with the first alone everyone would be held back.
INTEL_MAC := sys_platform == 'darwin' and platform_machine == 'x86_64'
NO_INTEL_MAC := sys_platform != 'darwin' or platform_machine != 'x86_64'

lock: setup ## write requirements.lock anew for pyproject.toml; newer releases only with ARGS=--upgrade
	@printf '%s\n' "cryptography<49 ; $(INTEL_MAC)" "cryptography>=49 ; $(NO_INTEL_MAC)" | \
	  UV_CUSTOM_COMPILE_COMMAND="make lock" $(VENV)/bin/uv pip compile --quiet --universal --python-version 3.11 \
	  --generate-hashes --no-strip-extras --group dev --constraints - --no-emit-index-url --no-emit-find-links \
	  --output-file requirements.lock $(ARGS) pyproject.toml
	@! grep -nE '://|-index|--find-links' requirements.lock || { echo "an address is left in requirements.lock" >&2; exit 1; }

up: setup ## serve the deployments, their schedules and the web page until `make down`
	@$(VENV)/bin/tradewright up $(ARGS)

down: setup ## stop what `make up` started
	@$(VENV)/bin/tradewright down $(ARGS)

clean: ## remove .venv, builds and caches; never the portfolio's own records
	@rm -rf $(VENV) dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
	@find $(FOLDERS) tests -name __pycache__ -prune -exec rm -rf {} +
