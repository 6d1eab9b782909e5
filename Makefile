# `make demo` and `make test` need python3 >= 3.11 with its venv module, and make. All else goes into .venv.

PYTHON ?= python3
# With LOCKED=1 the development tools are those of the lock, with their hashes, in a venv of their own: make test LOCKED=1
LOCKED ?=
VENV := $(if $(LOCKED),.venv-locked,.venv)
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
# What makes the site: it wants nothing that pyproject.toml names, so it is pinned here.
SITE := zensical==0.0.73 griffelib==2.4.1
# What is compared with: litellm cannot live beside the SDKs' current versions.
COMPARE := .venv-compare
COMPARE_LITELLM := .venv-compare-litellm
# SDKs and the servers that they are tested with. aimock is a program for node.
INTEGRATIONS := .venv-integrations
AIMOCK := @copilotkit/aimock@1.43.0
# Frameworks that own the loop; those that want openai 2, as Strands does, cannot live beside the others.
AGENTS := .venv-agents
AGENTS_STRANDS := .venv-agents-strands
# Programs that keep traces: Phoenix and MLflow.
BACKENDS := .venv-backends
# Versions of pydantic that the tool boundary is tried with beside the newest, all else being new, and what depends on it.
PYDANTICS := 2.11 2.12
BY_PYDANTIC := tests/tools tests/exports tests/interop tests/modes tests/history tests/mcp tests/dispatch/test_dispatch.py
TESTED_ELSEWHERE := 'anyio[trio]' 'pytest>=8.3' 'pytest-asyncio>=1.0'
# What is installed at the lowest version that pyproject.toml names, and what is tried with it: whatever reaches into a
# dependency, without the wires, framings and stages, and the slowest of what is our own: 9,500 tests, which take nine
# minutes of a processor's time, so about half of that on two idle cores.
OLDEST := .venv-oldest
OLDEST_HAS := matrix,mcp,redis,fast,compression,otlp,terminal,dbos
BY_OLDEST := tests/test_oldest.py tests/tools tests/exports tests/interop tests/modes tests/history tests/mcp \
  tests/telemetry tests/record tests/view tests/dispatch tests/pipelines tests/sources tests/web tests/durable tests/demo tests/test_cli.py \
  $(addprefix --ignore=tests/dispatch/test_,calls_once_after_kills.py executors_in_a_pipeline.py) \
  $(addprefix --ignore=tests/pipelines/test_,branches.py endless_streams_through_the_pipeline.py) \
  --ignore=tests/sources/test_sockets.py
# What is tried with agent frameworks; Strands has a venv of its own.
BY_AGENTS := agents_tap crashes framework_tools langgraph langgraph_approvals langgraph_once peers pydantic_ai pydantic_ai_approvals pydantic_ai_once smolagents smolagents_once
BY_CLIENTS := $(addprefix tests/web/,test_ai_sdk.py test_ai_sdk_live.py test_ag_ui_client.py test_chat_pages.py test_chat_axe.py test_first_page.py clients)
# The pages of other clients, bundled; without node and npm there is our own alone.
PAGES := .node-web/pages/.built
BY_STRANDS := agents_tap crashes framework_tools strands strands_once
# pytest's workers, and more arguments for the demo or for pytest: make unit ARGS="-k early"
JOBS ?= 2
PYTHONS ?=
ARGS ?=

# pyright must not go to the network to look for a newer version of itself.
export PYRIGHT_PYTHON_IGNORE_WARNINGS := 1
# Some hundred tests start a Python, which would compile the package each time.
unexport PYTHONDONTWRITEBYTECODE

# Tests that also compare with an SDK where there is one.
WITH_SDKS := tests/wires/test_bedrock.py tests/wires/test_gemini_history.py tests/framing/test_aws_eventstream.py

.DEFAULT_GOAL := help
.PHONY: demo chat test test-all thorough sweeps fuzz soak test-integrations test-agents test-backends test-web test-ray test-dbos lint types mypy pyright unit test-pydantic test-oldest test-pythons dist api lock audit instructions mutants bench bench-load bench-compare docs format clean help

demo: $(VENV)/.demo  ## a model on this machine calls tools while it streams, and the run becomes a page, a trace and a recording
	@$(BIN)/python -m demo $(ARGS)

chat: $(VENV)/.dev $(PAGES)  ## a chat on loopback, by pages of our own, useChat and AG-UI; its model is a script: make chat ARGS=8080
	@$(BIN)/python -m examples.chat $(ARGS)

test: lint types unit  ## what to run while you work: lint, types and unit

lint: $(VENV)/.dev  ## ruff: rules and formatting
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.dev  ## mypy and pyright, both strict about what is public, side by side
	@$(MAKE) --no-print-directory --jobs=2 --output-sync=target mypy pyright

mypy: $(VENV)/.dev
	$(BIN)/mypy --strict

pyright: $(VENV)/.dev
	$(BIN)/pyright --pythonpath $(BIN)/python

unit: $(VENV)/.dev  ## the quick tests: of each law some cases and examples
	$(BIN)/python -m pytest -n $(JOBS) -m "not sweep and not thorough" $(ARGS)

# The quick tests are among the thorough ones and are not run twice.
test-all: export STREAMTOOLS_TESTS := full
test-all: export SEED := 2026
test-all: lint types thorough sweeps fuzz instructions test-oldest test-dbos docs  ## all that must pass before it lands; neither the SDKs nor the cluster

thorough: export STREAMTOOLS_TESTS := full
thorough: $(VENV)/.dev  ## every case and example of each law, with branch coverage
	$(BIN)/python -m pytest -n $(JOBS) -m "not sweep" --cov $(ARGS)

sweeps: $(VENV)/.dev  ## the long tests: every point of cancellation, interrupts, workers that are killed
	$(BIN)/python -m pytest -n $(JOBS) -m sweep $(ARGS)

# A seed of its own each time: what it finds is printed, and becomes a test in tests/test_found_by_fuzzing.py. What
# judges a change (test-all) names its seed: the same inputs for everybody, and no refusal for what was wrong before.
fuzz: $(VENV)/.dev  ## the fuzzers, a minute each, side by side; SEED=n derives the inputs of another time again
	@seed=$${SEED:-$$$$}; for each in parse mcp readers; do \
	  $(BIN)/python tests/fuzz/fuzz_$$each.py --seconds 60 --seed $$seed & pids="$$pids $$!"; done; \
	for pid in $$pids; do wait $$pid || exit 1; done

soak: $(VENV)/.dev  ## hours, not minutes: 10,000 calls around their begin, 500 interrupts, 2,000 payments decided at once
	$(BIN)/python -m benchmarks.soak_double_runs 10000
	$(BIN)/python -m benchmarks.soak_interrupts 500
	$(BIN)/python -m benchmarks.soak_deciders 2000

test-pydantic: $(PYDANTICS:%=test-pydantic-%)  ## the tool boundary with each older pydantic, too

test-oldest: $(OLDEST)/.installed  ## with the lowest version of each dependency and extra that pyproject.toml names
	STREAMTOOLS_OLDEST=1 $(OLDEST)/bin/python -m pytest -n $(JOBS) -m "not sweep" $(BY_OLDEST) $(ARGS)

test-pythons: $(BIN)/pip  ## the quick tests on each Python from 3.11 on that is here: make test-pythons PYTHONS="3.12 3.13"
	$(BIN)/python -m release.pythons --jobs $(JOBS) $(PYTHONS) --pytest $(ARGS)

test-pydantic-%: .venv-pydantic-%/.installed
	.venv-pydantic-$*/bin/python -m pytest -n $(JOBS) $(BY_PYDANTIC) $(ARGS)

# litellm holds openai at version 2, and the development tools are there with the newest: so openai is tried in both.
test-integrations: $(INTEGRATIONS)/.installed .aimock/.installed $(VENV)/.dev  ## the SDKs themselves, against servers on this machine
	$(INTEGRATIONS)/bin/python -m pytest -n $(JOBS) tests/integrations $(WITH_SDKS) $(ARGS)
	$(INTEGRATIONS)/bin/python -m pytest -n $(JOBS) tests/test_examples.py -k docs/providers $(ARGS)
	$(BIN)/python -m pytest -n $(JOBS) tests/integrations/test_openai_sdk.py $(ARGS)

test-agents: $(AGENTS)/.installed $(AGENTS_STRANDS)/.installed  ## agent frameworks: a tap under their clients, their calls, their tools
	$(AGENTS)/bin/python -m pytest -n $(JOBS) $(BY_AGENTS:%=tests/integrations/test_%_sdk.py) $(ARGS)
	$(AGENTS)/bin/python examples/langgraph_tool_node.py
	$(AGENTS)/bin/python examples/pydantic_ai_toolset.py
	$(AGENTS_STRANDS)/bin/python -m pytest -n $(JOBS) $(BY_STRANDS:%=tests/integrations/test_%_sdk.py) $(ARGS)

test-backends: $(BACKENDS)/.installed  ## traces in Phoenix and MLflow, as they read them; in Jaeger where STREAMTOOLS_JAEGER_URL is set
	$(BACKENDS)/bin/python -m pytest -p no:phoenix tests/backends $(ARGS)

test-web: export STREAMTOOLS_WEB_RUNS := 2000
test-web: $(PAGES) $(VENV)/.dev  ## what the clients of pages make of 2,000 runs: the packages themselves, under node
	$(BIN)/python -m pytest -s --deadline 1200 $(BY_CLIENTS) $(ARGS)

test-ray: .venv-ray/.installed  ## RayExecutor, on a cluster of two nodes on this machine
	.venv-ray/bin/python -m pytest tests/cluster $(ARGS)

test-dbos: .venv-dbos/.installed  ## a run whose process is killed at every point, and started again
	.venv-dbos/bin/python -m pytest tests/durable $(ARGS)

bench: $(VENV)/.dev  ## every figure of the benchmarks in one table: make bench ARGS="--json figures.json"
	$(BIN)/python -m benchmarks $(ARGS)

instructions: $(VENV)/.dev  ## what a delta, call, span and import cost in instructions, against the table; more: ARGS=--help
	$(BIN)/python -m benchmarks.instructions --jobs $(JOBS) $(ARGS)

mutants: $(VENV)/.dev  ## break the core modules on purpose: which breaks does no test notice? make mutants ARGS="--seed 7"
	$(BIN)/python -m benchmarks.mutants --jobs $(JOBS) $(ARGS)

bench-load: $(VENV)/.dev  ## 2,000 pipelines for a minute: is a call lost, does memory grow, does a call wait?
	$(BIN)/python -m benchmarks.load $(ARGS)

bench-compare: $(COMPARE)/.installed $(COMPARE_LITELLM)/.installed  ## the same streams read by the SDKs and other libraries
	$(COMPARE)/bin/python -m benchmarks.compare --python $(COMPARE_LITELLM)/bin/python $(ARGS)

dist: .venv-release/.installed $(VENV)/.dev  ## wheel, source distribution, SBOM and interface in dist/, built twice and tried outside the checkout
	.venv-release/bin/python -m release.dist $(BIN)

api: .venv-release/.installed  ## what breaks programs for a release: make api AGAINST=streamtools-0.1.0-py3-none-any.whl; else the interface
	@.venv-release/bin/python -m release.api $(if $(AGAINST),--against $(AGAINST))

lock: .venv-release/.installed  ## write release/dev.lock again: the development tools with their hashes, which LOCKED=1 installs
	.venv-release/bin/python -m release.lock

audit: .venv-release/.installed  ## does the lock meet pyproject.toml, and do the packages have its hashes?
	.venv-release/bin/python -m release.lock --check

docs: .venv-docs/.installed  ## the documentation site in build/docs/site, strictly; asks only the package index, once
	@if test -e $<; then .venv-docs/bin/python docs/build_site.py && .venv-docs/bin/python docs/search_check.py; \
	else echo "THE SITE IS NOT BUILT: there is no Zensical without the package index." >&2; fi

format: $(VENV)/.dev  ## rewrite the code as `lint` wants it
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:  ## remove the venvs, caches and builds
	rm -rf $(VENV) $(COMPARE) $(COMPARE_LITELLM) $(INTEGRATIONS) $(AGENTS) $(AGENTS_STRANDS) $(BACKENDS) $(OLDEST) .venv-locked .venv-release $(PYDANTICS:%=.venv-pydantic-%) .venv-python-* .venv-ray .venv-dbos .venv-docs .aimock .node-web
	rm -rf build dist *.egg-info .coverage .coverage.* .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name .git -prune -o -name __pycache__ -type d -prune -exec rm -rf {} +

help:  ## this list
	@awk -F ':.*##' '/^[a-z-]+:.*##/ { printf "  make %-17s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

# -- what is installed: a stamp is newer than pyproject.toml when it is ---------------------------------------------

# The model's server has no build for every platform. Without it the demo replays a recorded stream and says so.
NO_SERVER := The demo's model server cannot be installed here; going on without it.

$(VENV)/.demo: pyproject.toml | $(BIN)/pip
	@echo "Installing streamtools into $(VENV) (once) ..."
	@$(PIP) install -e '.[demo]' || { echo "$(NO_SERVER)" >&2; $(PIP) install -e .; }
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

# A venv of its own for the extra of the same name: .venv-compare holds '.[compare]'.
.venv-%/.installed: pyproject.toml | $(BIN)/pip
	@echo "Installing streamtools[$*] into .venv-$* (once) ..."
	@$(BIN)/python -m venv .venv-$*
	@.venv-$*/bin/python -m pip --disable-pip-version-check --quiet install -e '.[$*]'
	@touch $@

# Not every platform has a build of these. Without it their tests are skipped, and say so.
.venv-ray/.installed .venv-dbos/.installed: .venv-%/.installed: pyproject.toml | $(BIN)/pip
	@echo "Installing streamtools[$*] into .venv-$* (once) ..."
	@$(BIN)/python -m venv .venv-$*
	@.venv-$*/bin/python -m pip --disable-pip-version-check --quiet install -e . $(TESTED_ELSEWHERE)
	@.venv-$*/bin/python -m pip --disable-pip-version-check --quiet install -e '.[$*]' \
	  || echo "$* cannot be installed here; its tests are skipped." >&2
	@touch $@

# The shortest stem wins, so this one is taken for .venv-pydantic-2.11. SDKs come as old as that pydantic wants them.
.PRECIOUS: .venv-pydantic-%/.installed
.venv-pydantic-%/.installed: pyproject.toml | $(BIN)/pip
	@echo "Installing streamtools with pydantic $* into .venv-pydantic-$* (once) ..."
	@$(BIN)/python -m venv .venv-pydantic-$*
	@.venv-pydantic-$*/bin/python -m pip --disable-pip-version-check --quiet install -e '.[matrix]' 'pydantic==$*.*'
	@touch $@

# Nothing may lift what is pinned: the SDKs in the tests come as new as the lowest versions let them.
$(OLDEST)/.installed: pyproject.toml tests/oldest.py | $(BIN)/pip
	@echo "Installing streamtools into $(OLDEST) with the lowest version of each dependency (once) ..."
	@$(BIN)/python -m venv $(OLDEST)
	@$(BIN)/python tests/oldest.py > $(OLDEST)/lowest.txt
	@$(OLDEST)/bin/python -m pip --disable-pip-version-check --quiet install -c $(OLDEST)/lowest.txt -e '.[$(OLDEST_HAS),demo]' \
	  || { echo "$(NO_SERVER)" >&2; $(OLDEST)/bin/python -m pip --disable-pip-version-check --quiet \
	    install -c $(OLDEST)/lowest.txt -e '.[$(OLDEST_HAS)]'; }
	@touch $@

.venv-docs/.installed: Makefile pyproject.toml | $(BIN)/pip
	@echo "Installing streamtools and Zensical into .venv-docs (once) ..."
	@$(BIN)/python -m venv .venv-docs
	@rm -f $@; .venv-docs/bin/python -m pip --disable-pip-version-check --quiet install -e . $(SITE) \
	  && touch $@ || echo "The package index cannot be reached; nothing makes the site." >&2

.aimock/.installed: Makefile
	@mkdir -p .aimock
	@npm install --prefix .aimock --no-package-lock --ignore-scripts --no-audit --no-fund --silent $(AIMOCK) \
	  && touch $@ || echo "npm cannot install $(AIMOCK) here; the tests that ask it are skipped." >&2

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
