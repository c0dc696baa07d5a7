# Every target does all its set-up: a virtual environment, the Python packages of requirements.lock, and (for
# what runs services) Java, Maven and redis-server, which root on a Debian-like system gets installed and
# everybody else gets named.
#
#   make demo                       the whole pipeline on the documentation of the Python standard library
#   make chaos JOBS=20000 SEED=7 FAULTS=20   embeds while everything breaks, then audits what is left
#   make test ARGS="-k lease -x"    arguments go to pytest; likewise to demo, bench, up and down
#   make lint PYTHON=python3.12     another interpreter for the virtual environment

VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
AUDIT := $(VENV)/audit
IS_NEW_ENOUGH := import sys; sys.exit(sys.version_info < (3, 11))
# The first interpreter that is new enough; asked only while there is no virtual environment.
PYTHON ?= $(shell for python in python3 python3.14 python3.13 python3.12 python3.11; do \
	if "$$python" -c '$(IS_NEW_ENOUGH)' 2>/dev/null; then echo "$$python"; break; fi; done)
ARGS ?=

.PHONY: help demo test lint bench chaos up down audit docs tools

help:
	@sed -n 's/^#   //p' Makefile
	@echo "targets: demo test lint bench chaos up down audit docs"

demo: tools
	$(BIN)/neo4j-queue demo $(ARGS)

test: tools
	$(BIN)/python -m tests $(ARGS)

lint: $(INSTALLED)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: tools
	$(BIN)/python -m benchmarks $(ARGS)

chaos: tools
	$(BIN)/python -m benchmarks.chaos $(if $(JOBS),--jobs $(JOBS)) $(if $(SEED),--seed $(SEED)) \
		$(if $(FAULTS),--faults $(FAULTS)) $(ARGS)

docs: $(INSTALLED)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build
	@echo "open site/index.html"

up: tools
	$(BIN)/neo4j-queue up $(ARGS)

down: $(INSTALLED)
	$(BIN)/neo4j-queue down $(ARGS)

# Known weaknesses of the packages in requirements.lock. Not a test: its answer changes without a change here.
audit: $(INSTALLED)
	@test -x $(AUDIT)/bin/pip-audit || { $(BIN)/python -m venv $(AUDIT) && $(AUDIT)/bin/python -m pip install --quiet pip-audit; }
	@# Strict: a package of which nothing is known there is not one without weaknesses.
	$(AUDIT)/bin/pip-audit --strict --requirement requirements.lock --no-deps --disable-pip $(ARGS)

tools: $(INSTALLED)
	@$(BIN)/python -m neo4j_queue.local_services

$(INSTALLED): requirements.lock pyproject.toml | $(BIN)/python
	@echo "installing the Python packages of requirements.lock (a minute or two the first time)"
	@$(BIN)/python -m pip --version >/dev/null 2>&1 || $(BIN)/python -m ensurepip >/dev/null
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements.lock
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --editable .
	@touch $@

$(BIN)/python:
	@if ! "$(PYTHON)" -c '$(IS_NEW_ENOUGH)' 2>/dev/null; then \
		echo "neo4j-queue needs Python 3.11 or newer; $(or $(PYTHON),python3) here is:" \
			"$$("$(or $(PYTHON),python3)" --version 2>&1 | tail -n 1)" >&2; \
		echo "  Debian, Ubuntu   sudo apt-get install python3 python3-venv" >&2; \
		echo "  Fedora           sudo dnf install python3" >&2; \
		echo "  macOS            brew install python" >&2; \
		echo "  or name one      make PYTHON=/path/to/python3" >&2; \
		exit 75; \
	fi
	@if ! "$(PYTHON)" -c 'import ensurepip' 2>/dev/null; then \
		if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
			echo "installing python3-venv (apt-get)"; \
			apt-get -qq update && DEBIAN_FRONTEND=noninteractive apt-get -qq install --yes python3-venv >/dev/null; \
		else \
			echo "this Python cannot make virtual environments; Debian, Ubuntu: sudo apt-get install python3-venv" >&2; \
			exit 75; \
		fi; \
	fi
	@"$(PYTHON)" -m venv $(VENV)
