# What a person needs to work on txmanager. `make` alone lists the targets.

PYTHON ?= python3
VENV ?= .venv
BIN = $(VENV)/bin
STAMP = $(VENV)/.installed
# Their only releases are source archives that need a C compiler; all else has wheels. One drop-in's tests use them.
NEED_A_COMPILER = ed25519 near-api-py
SUPPORT = tests/servers tests/reporting tests/conftest.py tests/waiting.py

.PHONY: truth docs reference release help install lock test check quick-test run demo sim model mutation bench lint openapi format clean chaos
.DEFAULT_GOAL := help

help:  ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

install: $(STAMP)  ## Make .venv with the locked dependencies

$(STAMP): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "txmanager needs Python 3.11 or later; set PYTHON=")'
	@echo "installing into $(VENV), once (about a minute) ..."
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check uv || echo "no uv: installing with pip, which is slower"
	@awk -v keep=0 -v names='$(NEED_A_COMPILER)' '$(entries)' requirements.lock > $(VENV)/wheels.txt
	@awk -v keep=1 -v names='$(NEED_A_COMPILER)' '$(entries)' requirements.lock > $(VENV)/sources.txt
	@echo "  $$(grep -c == $(VENV)/wheels.txt) locked packages ..."
	@$(call pip_install,--require-hashes --no-deps -r $(VENV)/wheels.txt)
	@$(call pip_install,--require-hashes --no-deps -r $(VENV)/sources.txt) 2> $(VENV)/sources.log \
		|| echo "not installed, for want of a C compiler (see $(VENV)/sources.log): $(NEED_A_COMPILER)"
	@echo "  txmanager itself ..."
	@$(call pip_install,--no-deps -e .)
	@touch $(STAMP)
	@echo "installed"

# A package of the lock is its line and the hashes below it: those with one of the names (keep=1), or all others.
entries = BEGIN { split(names, list, " "); for (i in list) wanted[list[i]] = 1 } \
	/^[^ ]/ { split($$0, part, "=="); in_it = (part[1] in wanted) } in_it == keep

# uv where it could be installed, pip otherwise. Both refuse a file whose hash is not in the lock.
pip_install = if [ -x $(BIN)/uv ]; then VIRTUAL_ENV=$(VENV) $(BIN)/uv pip install --quiet $(1); \
	else $(BIN)/python -m pip install --quiet --disable-pip-version-check $(1); fi

lock: $(STAMP)  ## Resolve requirements.lock again from pyproject.toml, with the hash of every file
	$(LOCK) --extra dev --output-file requirements.lock $(ARGS)
	$(LOCK) --extra near --extra evm --extra archive --constraint requirements.lock --output-file deploy/requirements.lock

LOCK = $(BIN)/uv pip compile --quiet --universal --generate-hashes --no-header --no-annotate --no-emit-index-url pyproject.toml

# Half of the tests' time is waiting, so that four processes keep two cores busy.
JOBS ?= 4
test: $(STAMP)  ## Run the tests (ARGS="tests/core -k router" for some of them in one process, JOBS=8 for more processes)
	$(BIN)/pytest $(if $(ARGS),$(ARGS),--processes $(JOBS))

check: $(STAMP)  ## Check a change in a minute: style, types, core, the ledger on one server, a short simulation
	@$(MAKE) --no-print-directory -j2 --output-sync=target lint quick-test

quick-test: $(STAMP)
	TXMANAGER_SIM_SCHEDULES=150 $(BIN)/pytest --processes 2 tests/core tests/settings tests/test_architecture.py \
		tests/ledger/test_conformance.py tests/ledger/test_twins.py tests/sim/test_schedules.py \
		-k "not valkey9 and not cluster and not sentinel and not durable" $(ARGS)

run: $(STAMP)  ## Run everything on embedded defaults (ARGS="--port 8090" for options)
	@$(BIN)/txmanager up $(ARGS)

chaos: $(STAMP)  ## Kill, stop and cut off real processes, write docs/reliability.md (QUICK=1, SEED=7, SCENE=cluster)
	$(BIN)/python -m tests.chaos $(if $(QUICK),--quick) $(if $(SEED),--seed $(SEED)) $(if $(SCENE),--scene $(SCENE)) $(ARGS)

RUNS ?= 1
demo: $(STAMP)  ## Tell the two-minute story: 500 accounts, retries, a kill -9 (RUNS=20 for twenty times)
	@$(BIN)/txmanager demo --runs $(RUNS) $(ARGS)

# SEED replays one schedule, MUTANTS hunts the seeded bugs (MUTANTS=name for one), otherwise SCHEDULES run.
sim: $(STAMP)  ## Simulate 100,000 schedules of faults and check every promise (SCHEDULES=n, SEED=n, MUTANTS=1)
	@$(BIN)/python -m tests.sim $(if $(SEED),--seed $(SEED),$(if $(MUTANTS),--mutants $(filter-out 1,$(MUTANTS)), \
		$(if $(SCHEDULES),--schedules $(SCHEDULES)) $(if $(FIRST),--first $(FIRST)))) $(ARGS)
	@$(if $(SEED)$(MUTANTS),true,$(BIN)/python -m tests.sim.evm $(if $(SCHEDULES),$(SCHEDULES),5000))
	@$(if $(SEED)$(MUTANTS),true,$(BIN)/python -m tests.sim.mempool $(if $(SCHEDULES),$(SCHEDULES),5000))

truth: $(STAMP)  ## Ask a real node what the tests believe (NEAR_RPC=..., GETH=...; alone it says what to set)
	@$(BIN)/python -m tests.truth

mutation: $(STAMP)  ## Put small mistakes into the core and see that tests notice (ARGS="core/decide.py" for one module)
	$(BIN)/python -m tests.mutation $(ARGS)

model: $(STAMP)  ## Visit every state of the Spin model, and break it rule by rule (VARIANT=NO_TOMBSTONE TRAIL=1 for one story)
	@$(BIN)/python -m tests.model $(if $(VARIANT),--variant $(VARIANT)) $(if $(TRAIL),--trail) $(ARGS)

bench: $(STAMP)  ## Measure against other queues and write docs/performance.md (ARGS="--quick")
	$(BIN)/txmanager bench $(ARGS)

lint: $(STAMP)  ## Check style and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/mypy $(SUPPORT)

openapi: $(STAMP)  ## Generate the TypeScript client's types from the API again (needs npm)
	@test -d clients/typescript/node_modules || npm --prefix clients/typescript ci --ignore-scripts --no-audit --no-fund
	@$(BIN)/python -m txmanager.api.document > clients/typescript/node_modules/.openapi.json
	@cd clients/typescript && node scripts/generate.mjs node_modules/.openapi.json

reference: $(STAMP)  ## Write docs/configuration.md again from the settings
	@$(BIN)/python .ci/docs/configuration.py

docs: $(STAMP)  ## Build the documentation as a site that needs no network: build/site/index.html
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet -f .ci/docs/mkdocs.yml
	@echo "build/site/index.html"

# The version is in pyproject.toml; the changelog must have a section for it.
release: $(STAMP)  ## Build the wheel and the source archive into dist/, and test the wheel in empty environments
	@version=$$($(BIN)/python -c 'import tomllib; print(tomllib.load(open("pyproject.toml", "rb"))["project"]["version"])'); \
		grep -q "^## $$version" CHANGELOG.md || { echo "CHANGELOG.md has no section '## $$version'"; exit 1; }
	@test -z "$$(git status --porcelain)" || { echo "commit first: a release is built from a commit"; exit 1; }
	rm -rf dist && $(BIN)/python -m build --outdir dist .
	$(BIN)/pytest tests/install tests/toychain
	@ls -l dist

format: $(STAMP)  ## Put the code into its form
	$(BIN)/ruff check --fix-only --quiet .
	$(BIN)/ruff format .

clean:  ## Remove .venv and caches
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis build dist *.egg-info
