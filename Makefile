# Everything goes through the virtual environment .venv, made on first use; only Python >= 3.11 and make are needed.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
OUT := out

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

venv: $(READY) ## make .venv with everything that development needs

demo: $(READY) ## train a classifier, compile it into one file, run that file in a process without the compiler
	$(BIN)/python examples/demo.py --out $(OUT)

test: $(READY) ## run all tests
	$(BIN)/python -m pytest -q -n auto --dist worksteal

check: format lint types layers smoke test ## everything, cheapest first

format: $(READY) ## is the code formatted?
	$(BIN)/ruff format --check .

lint: $(READY) ## ruff
	$(BIN)/ruff check .

types: $(READY) ## mypy --strict
	$(BIN)/mypy

layers: $(READY) ## do imports point one way?
	$(BIN)/python -m pytest -q tests/test_layers.py

smoke: $(READY) ## the quick tests: leaves and runtime
	$(BIN)/python -m pytest -q -x tests/leaves tests/runtime

bench: $(READY) ## measure; results go to out/
	mkdir -p $(OUT)
	$(BIN)/python -m benchmarks --out $(OUT)

clean: ## remove the environment and what was built
	rm -rf $(VENV) $(OUT) build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(READY): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed: make PYTHON=...")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	touch $@

.PHONY: help venv demo test check format lint types layers smoke bench clean
