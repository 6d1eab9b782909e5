# `make demo` and `make test` need python3 >= 3.11 with its venv module, and make. All else goes into .venv, and what is
# tried with peers, other versions and Pythons into .nox: `.venv/bin/nox -l` lists it.

PYTHON ?= python3
# With LOCKED=1 the development tools are those of the lock, with their hashes, in a venv of their own: make test LOCKED=1
LOCKED ?=
VENV := $(if $(LOCKED),.venv-locked,.venv)
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
# What makes the site: it wants nothing that pyproject.toml names, so it is pinned here.
SITE := zensical==0.0.73 griffelib==2.4.1
# The pages of other clients, bundled; without node and npm there is our own alone.
PAGES := .node-web/pages/.built
# pytest's workers, and more arguments for the demo or for pytest: make test ARGS="-k early"
JOBS ?= 2
ARGS ?=

export JOBS
# pyright must not go to the network to look for a newer version of itself.
export PYRIGHT_PYTHON_IGNORE_WARNINGS := 1
# Some hundred tests start a Python, which would compile the package each time.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: demo chat test test-all lint types mypy pyright unit thorough sweeps fuzz peers instructions mutants bench compare dist docs format help

demo: $(VENV)/.demo  ## a model on this machine calls tools while it streams, and the run becomes a page, a trace and a recording
	@$(BIN)/python -m demo $(ARGS)

chat: $(VENV)/.dev $(PAGES)  ## a chat on loopback, by pages of our own, useChat and AG-UI; its model is a script: make chat ARGS=8080
	@$(BIN)/python -m examples.chat $(ARGS)

test: lint unit  ## what to run while you work: lint, types and the quick tests, of each law some cases

# The quick tests are among the thorough ones; the peers' run has them once more, and a budget.
test-all: export STREAMTOOLS_TESTS := full
test-all: export SEED := 2026
test-all: lint thorough sweeps fuzz instructions peers docs  ## all that must pass before it lands: every case of each law, a peer of each family, the oldest versions

lint: $(VENV)/.dev  ## ruff, the shape of the package, and mypy and pyright side by side, both strict about what is public
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/python -m benchmarks.shape
	@$(MAKE) --no-print-directory --jobs=2 --output-sync=target mypy pyright

mypy: $(VENV)/.dev
	$(BIN)/mypy --strict

pyright: $(VENV)/.dev
	$(BIN)/pyright --pythonpath $(BIN)/python

unit: $(VENV)/.dev
	$(BIN)/python -m pytest -n $(JOBS) -m "not sweep and not thorough" $(ARGS)

thorough: $(VENV)/.dev
	STREAMTOOLS_TESTS=full $(BIN)/python -m pytest -n $(JOBS) -m "not sweep" $(ARGS)

sweeps: $(VENV)/.dev
	$(BIN)/python -m pytest -n $(JOBS) -m sweep $(ARGS)

# A seed of its own each time: what it finds is printed, and becomes a test in tests/test_found_by_fuzzing.py. What
# judges a change (test-all) names its seed: the same inputs for everybody, and no refusal for what was wrong before.
fuzz: $(VENV)/.dev
	$(BIN)/python tests/fuzz/fuzz_parse.py --seconds 60 --seed $${SEED:-$$$$}

peers: $(VENV)/.dev
	env -u STREAMTOOLS_TESTS $(BIN)/nox -s peers oldest durable

bench: $(VENV)/.dev  ## every figure of the benchmarks in one table: make bench ARGS="--json figures.json"
	$(BIN)/python -m benchmarks $(ARGS)

instructions: $(VENV)/.dev  ## what a delta, call, span and import cost in instructions, against the table; more: ARGS=--help
	$(BIN)/python -m benchmarks.instructions --jobs $(JOBS) $(ARGS)

mutants: $(VENV)/.dev  ## break the core modules on purpose: which breaks does no test notice? make mutants ARGS="--seed 7"
	$(BIN)/python -m benchmarks.mutants --jobs $(JOBS) $(ARGS)

compare: $(VENV)/.dev  ## the same streams read by the SDKs and other libraries
	$(BIN)/nox -s compare -- $(ARGS)

dist: $(VENV)/.dev  ## wheel, source distribution, SBOM and interface in dist/, built twice and tried outside the checkout
	$(BIN)/nox -s dist

docs: .venv-docs/.installed  ## the documentation site in build/docs/site, strictly; asks only the package index, once
	@if test -e $<; then .venv-docs/bin/python docs/build_site.py && .venv-docs/bin/python docs/search_check.py; \
	else echo "THE SITE IS NOT BUILT: there is no Zensical without the package index." >&2; fi

format: $(VENV)/.dev  ## rewrite the code as `lint` wants it
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

help:
	@awk -F ':.*##' '/^[a-z-]+:.*##/ { printf "  make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@echo "  nox -l             what is tried with SDKs, frameworks, backends, older versions and other Pythons (.venv/bin/nox)"

# -- what is installed: a stamp is newer than pyproject.toml when it is ---------------------------------------------

# The model's server has no build for every platform. Without it the demo replays a recorded stream and says so.
NO_SERVER := The demo's model server cannot be installed here; going on without it.

$(VENV)/.demo: pyproject.toml | $(BIN)/pip
	@echo "Installing streamtools into $(VENV) (once) ..."
	@$(PIP) install -e '.[demo]' || { echo "$(NO_SERVER)" >&2; $(PIP) install -e '.[otlp]'; }
	@touch $@

$(VENV)/.dev: pyproject.toml $(if $(LOCKED),release/dev.lock) | $(BIN)/pip
	@echo "Installing streamtools and its development tools into $(VENV) (once) ..."
ifeq ($(LOCKED),)
	@$(PIP) install -e '.[dev,demo]' || { echo "$(NO_SERVER)" >&2; $(PIP) install -e '.[dev]'; }
else
	@$(PIP) install --require-hashes -r release/dev.lock
	@$(PIP) install --no-deps --no-build-isolation -e .
endif
	@touch $@ $(VENV)/.demo

.venv-docs/.installed: Makefile pyproject.toml | $(BIN)/pip
	@echo "Installing streamtools and Zensical into .venv-docs (once) ..."
	@$(BIN)/python -m venv .venv-docs
	@rm -f $@; .venv-docs/bin/python -m pip --disable-pip-version-check --quiet install -e . $(SITE) \
	  && touch $@ || echo "The package index cannot be reached; nothing makes the site." >&2

.node-web/.installed: tests/web/clients/package.json
	@mkdir -p .node-web
	@cp $< .node-web/
	@npm install --prefix .node-web --no-package-lock --ignore-scripts --no-audit --no-fund --silent \
	  && touch $@ || echo "npm cannot install the clients of pages here; THEIR TESTS ARE SKIPPED." >&2

$(PAGES): .node-web/.installed $(wildcard examples/chat/pages/*)
	@[ -e .node-web/.installed ] && NODE_PATH=.node-web/node_modules .node-web/node_modules/.bin/esbuild \
	  examples/chat/pages/use-chat.jsx examples/chat/pages/ag-ui.jsx --bundle --minify --format=esm --jsx=automatic \
	  --define:process.env.NODE_ENV='"production"' --outdir=$(@D) --log-level=warning && touch $@ \
	  || echo "The pages of useChat and AG-UI need node and npm; going on without them." >&2

$(BIN)/pip:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "streamtools needs Python 3.11 or newer, and '$(PYTHON)' is not. Try: make PYTHON=python3.12 ..." >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' || { \
	  echo "'$(PYTHON)' lacks its venv module. On Debian and Ubuntu: apt install python3-venv" >&2; exit 1; }
	@$(PYTHON) -m venv $(VENV)
