# Every target works alone on a fresh clone with Python 3.11+ and make.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
export PIP_DISABLE_PIP_VERSION_CHECK = 1

.PHONY: demo test check lint bench tables clean

demo: $(VENV)/.base            ## the main job on a packaged scenario: a table and out/demo/report.html
	$(BIN)/rm-emulator run demo --out out/demo --overwrite

test: $(VENV)/.dev             ## the whole test suite
	$(BIN)/python -m pytest -n auto --dist loadgroup -q

check: lint                    ## the fast lane: lint, types, contracts, fast tests
	$(BIN)/python -m pytest -n auto --dist loadgroup -q -m "not bench and not older and not slow and not browser and not controlplane and not chaos"

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: $(VENV)/.dev            ## all benchmarks, each as a ratio with its reference
	$(BIN)/rm-emulator bench

tables: $(VENV)/.dev           ## the result tables of docs/
	$(BIN)/python -m rm_emulator.experiments.tables

clean:
	rm -rf $(VENV) out build *.egg-info

$(VENV)/bin/python:
	$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("rm-emulator needs Python 3.11 or newer; this is " + sys.version.split()[0] + " (set PYTHON=...)")'
	$(PYTHON) -m venv $(VENV)

$(VENV)/.base: pyproject.toml | $(VENV)/bin/python
	$(BIN)/pip install -q -e .
	touch $@

$(VENV)/.dev: pyproject.toml | $(VENV)/bin/python
	$(BIN)/pip install -q -e '.[k8s,dev]'
	touch $(VENV)/.base $@
