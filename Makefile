# Every target works alone on a fresh clone with Python 3.11+ and make.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
export PIP_DISABLE_PIP_VERSION_CHECK = 1
# Some containers set it; each process would then compile whatever it imports.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test nightly check fast lint bench tables clean compiled test-compiled controlplane demo-kubernetes test-older soak fidelity docs grid-demo

demo: $(VENV)/.base            ## the main job on a packaged scenario: a table and out/demo/report.html
	$(BIN)/rm-emulator run demo --out out/demo --overwrite

demo-kubernetes: $(VENV)/.dev  ## brain and controllers on a real control plane, watched live; about a minute
	$(BIN)/python -m devcluster demo

controlplane: $(VENV)/.dev     ## find or build the programs of a Kubernetes control plane, and Helm (Go 1.26; 10 minutes, once)
	$(BIN)/python -m devcluster build --helm

# Three more than there are cores: the control planes' tests, which three of them have at first, mostly wait.
WORKERS = $(shell echo $$(($$(nproc) + 3)))
# With a thread for each core the processes of torch and BLAS wait for each other's threads in a busy loop, all at once.
test fast nightly test-older test-compiled: export OMP_NUM_THREADS = 1
# On a clean clone each worker would compile the same packages and rewrite the same tests' assertions, all at once.
# A module that cannot be imported ends the run that follows, which says why.
COMPILE = -$(BIN)/python -m pytest --collect-only -q > /dev/null
# In CI nothing may be skipped, so what is missing is built; elsewhere those tests skip and say what to do.
test: $(VENV)/.dev             ## the whole test suite
	$(if $(filter true,$(CI)),$(BIN)/python -m devcluster build)
	$(if $(filter true,$(CI)),$(COMPILE))
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadgroup -q

nightly: $(VENV)/.dev          ## the whole test suite with all subjects and all examples; before an issue is resolved
	$(if $(filter true,$(CI)),$(BIN)/python -m devcluster build --helm)
	$(if $(filter true,$(CI)),$(COMPILE))
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadgroup -q --nightly
	$(MAKE) test-compiled

# The pages name the overlay of the version that the manifests are made for, so 1.35 has a loop of its own.
test-older: $(VENV)/.dev       ## the loop on the oldest Kubernetes that is supported, loop and pages on the newest (built first)
	$(BIN)/python -m devcluster build --version 1.35.4
	$(BIN)/python -m pytest -q -m older
	$(BIN)/python -m devcluster build --version 1.37.2
	KUBERNETES_VERSION=1.37.2 $(BIN)/python -m pytest -q $(foreach part,loop podgroups readme guide tutorial,tests/kubernetes/test_$(part)_controlplane.py)

soak: $(VENV)/.dev             ## an hour of foreign load on a real control plane, a kill each minute: docs/results-soak.md
	$(BIN)/python -m tests.kubernetes.soak --out docs/results-soak.md

# A copy of the tree, because Python would go on to import compiled modules whose sources were changed since.
compiled: $(VENV)/.dev         ## the tree with its core compiled by mypyc, in out/compiled (a C compiler; two minutes)
	rm -rf out/compiled && mkdir -p out/compiled && git ls-files -z | xargs -0 cp --parents -t out/compiled
	cd out/compiled && RM_EMULATOR_COMPILED=1 $(CURDIR)/$(BIN)/python setup.py -q build_ext --inplace --parallel 2 > /dev/null

test-compiled: compiled        ## the core's tests, and all that must decide as before, with the compiled core
	cd out/compiled && $(CURDIR)/$(BIN)/python -m pytest -n $(WORKERS) --dist loadgroup -q --nightly $(addprefix tests/,core property policies same contract yarn engine)

check: $(VENV)/.dev            ## the fast lane: lint, types, contracts, fast tests
	$(MAKE) -j2 lint fast

fast: $(VENV)/.dev
	$(BIN)/python -m pytest -n auto --dist loadgroup -q -m "not bench and not older and not slow and not browser and not controlplane and not chaos"

# In CI what mypy knows of the last clone is kept: it goes by what is in the files, not by where they are.
lint: export MYPY_CACHE_DIR = $(if $(filter true,$(CI)),$(HOME)/.cache/rm-emulator/mypy,.mypy_cache)
lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m tests.words

docs: $(VENV)/.docs            ## the site, with search, in out/site; no network is needed to build or to read it
	$(BIN)/sphinx-build -q -W --keep-going docs out/site

bench: $(VENV)/.dev            ## all benchmarks, each as a ratio with its reference
	$(BIN)/rm-emulator bench

# Decima's measured task durations, where they are; not ours to ship.
TPCH ?= ../shared/data/tpch-spark-profiles.json.gz
# A Python that has SAGA (anrg-saga), which is no dependency; without one its rows are left out.
SAGA ?=
tables: $(VENV)/.dev           ## the result tables of docs/
	$(BIN)/python -m studies.presets --docs docs
	$(BIN)/python -m studies.slearn --data $(dir $(TPCH))
	$(BIN)/python -m studies.graphene
	$(BIN)/python -m studies.decima --seeds 100 --profiles $(TPCH) --docs docs
	$(BIN)/python -m studies.learned --data $(dir $(TPCH)) --docs docs $(if $(RELEASED),--released $(RELEASED))
	$(BIN)/python -m studies.heuristics --docs docs $(if $(SAGA),--saga $(SAGA))
	$(BIN)/python -m studies.lachesis --docs docs
	$(BIN)/python -m studies.waits --docs docs
	$(BIN)/python -m studies.architectures --docs docs
	$(BIN)/python -m studies.sparrow --docs docs
	$(BIN)/python -m studies.jockey --docs docs
	$(BIN)/python -m studies.tetrisched --docs docs
	$(BIN)/python -m studies.faults --docs docs
	$(BIN)/python -m studies.when --docs docs --data $(dir $(TPCH))

# As many cells of about a second, and as many of hundredths of a second; out/grid-demo keeps what is done.
CELLS ?= 400
TINY ?= 10000
grid-demo: $(VENV)/.dev        ## a grid on a Dask cluster of this machine, whose parts are killed, beside --jobs 1
	$(BIN)/python -m benchmarks.grid_demo --cells $(CELLS) --tiny $(TINY)

# SLS folders to run, copied first because runs are stored in them; and how often each.
FOLDERS ?= ../shared/data/yarn-sls
RUNS    ?= 3
fidelity: $(VENV)/.base        ## the emulator beside fresh runs of the real ResourceManager (Maven, Java 17; an hour)
	mkdir -p out/fidelity && cp -R $(FOLDERS)/. out/fidelity && chmod -R u+w out/fidelity
	$(BIN)/rm-emulator fidelity out/fidelity/*/ --hadoop $(RUNS)

clean:
	rm -rf $(VENV) out build *.egg-info

$(VENV)/bin/python:
	$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("rm-emulator needs Python 3.11 or newer; this is " + sys.version.split()[0] + " (set PYTHON=...)")'
	$(PYTHON) -m venv $(VENV)

$(VENV)/.base: pyproject.toml | $(VENV)/bin/python
	$(BIN)/pip install -q -e .
	touch $@

# Torch is gigabytes, so only CI gets it; its tests skip elsewhere. uv links them from its cache, where pip unpacks them anew.
$(VENV)/.docs: pyproject.toml $(VENV)/.dev
	$(BIN)/pip install -q -e '.[docs]'
	touch $@

$(VENV)/.dev: pyproject.toml | $(VENV)/bin/python
ifeq ($(CI),true)
	$(BIN)/pip install -q uv
	$(BIN)/uv pip install -q --python $(BIN)/python -e '.[k8s,dev,learn,docs]'
else
	$(BIN)/pip install -q -e '.[k8s,dev]'
endif
	touch $(VENV)/.base $@
