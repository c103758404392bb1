# Every target sets up what it needs: a machine with Python 3.11+ (and its venv module) is enough; compat and proof also want JDK 17+,
# Maven, npm and kcat.
SHELL := /bin/sh
.DEFAULT_GOAL := help

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
WORKERS ?= 3
PARALLEL = -n $(WORKERS) --no-loadscope-reorder
ARGS   ?=
unexport PYTHONDONTWRITEBYTECODE # a broker starts in little more than half the time from modules that were compiled before

# What `make test` runs is the same each time: order, examples, seeds, hashes. ORDER=random draws all of them anew.
ORDER  ?= fixed
ifeq ($(ORDER),random)
CHANCE := --hypothesis-profile=random
else
CHANCE := -p no:randomly --hypothesis-profile=fixed
FIXED  := PYTHONHASHSEED=0
endif
PYTEST  = $(FIXED) $(BIN)/pytest $(CHANCE)

.PHONY: help
help: ## Show this list
	@echo "Tidelog: a replicated log that speaks the Kafka wire protocol"
	@echo
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@echo
	@echo "  ARGS='...' is passed on: make run ARGS='--port 0', make test ARGS='tests/storage -x'"

# What a broker needs, what a pipeline on Spark needs, and all of it, for tests; each is part of the next.
FOR_BROKER := $(VENV)/.installed-for-broker
FOR_RUN    := $(VENV)/.installed-for-run
PIP         = $(BIN)/python -m pip install --constraint constraints.txt

$(BIN)/python:
	@command -v $(PYTHON) >/dev/null || { \
		echo "Tidelog needs Python 3.11 or newer; there is no '$(PYTHON)'. Try: make $(MAKECMDGOALS) PYTHON=python3" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "Tidelog needs Python 3.11 or newer; '$(PYTHON)' is older. Try: make $(MAKECMDGOALS) PYTHON=python3.12" >&2; exit 1; }
	@$(PYTHON) -m venv $(VENV)

$(FOR_BROKER): pyproject.toml constraints.txt | $(BIN)/python
	@echo "installing a broker into $(VENV): 20 MB to download, 65 MB on the disk"
	@$(PIP) --quiet hatchling editables
	@$(PIP) --quiet --no-build-isolation --editable .
	@touch $@

$(FOR_RUN): pyproject.toml constraints.txt | $(BIN)/python
	@extra=spark; size=700; \
	if PYTHONPATH=src $(BIN)/python -m tidelog.pipeline.java >/dev/null 2>&1; then extra=spark-on-own-java; size=600; fi; \
	echo "installing PySpark and what it needs into $(VENV): some $$size MB to download"; \
	$(PIP) hatchling editables pyspark && $(PIP) --no-build-isolation --editable ".[$$extra]"
	@touch $@ $(FOR_BROKER)

$(STAMP): pyproject.toml constraints.txt | $(BIN)/python
	@echo "installing pinned dependencies into $(VENV)"
	@# What is built here, or builds itself (pyspark): the next line builds in this environment only.
	@$(PIP) --quiet hatchling editables pyspark
	@$(PIP) --quiet --no-build-isolation --editable '.[dev,clients,spark,tables]'
	@touch $@ $(FOR_RUN) $(FOR_BROKER)

.PHONY: setup
setup: $(STAMP) ## Create .venv with the command `tidelog` and all tools
	@echo "ready: $(BIN)/tidelog"

.PHONY: run
run: $(FOR_RUN) ## Run a pipeline on Spark: three brokers, orders, and a page to watch them (Ctrl-C stops all of it)
	@exec $(BIN)/tidelog demo shop $(ARGS)

.PHONY: broker
broker: $(FOR_BROKER) ## Run one broker, from a small installation (Ctrl-C stops it)
	@exec $(BIN)/tidelog up $(ARGS)

.PHONY: test
test: $(STAMP) ## Run the short tests that need nothing but the Python registry and judge no clock
	@$(PYTEST) -m "not compat and not proof and not timed" --ignore tests/tidy $(PARALLEL) --dist loadfile $(ARGS)

.PHONY: timed
timed: $(STAMP) ## Run the tests that judge time, memory or a session of seconds, one after another
	@$(PYTEST) -m "timed and not compat and not proof" $(ARGS)

.PHONY: compat
compat: $(STAMP) ## Run against other people's clients: Kafka's own (Maven), KafkaJS (npm), kcat (Debian)
	@$(BIN)/python -m tests.compatibility.fetch
	@$(PYTEST) -m "compat and not proof" $(PARALLEL) --dist loadfile $(ARGS)

.PHONY: proof
proof: $(STAMP) ## Run the long ones: crash sweeps, kill -9 under load, most of Spark, fuzzing
	@$(BIN)/python -m tests.compatibility.fetch
	@$(PYTEST) -m proof $(PARALLEL) --dist loadgroup --timeout 1200 $(ARGS)

.PHONY: mutants
mutants: $(STAMP) ## Put known bugs into the brokers, one by one, and see the simulator find each (10 min)
	@$(BIN)/python -m tests.mutants --jobs 2 $(ARGS)

.PHONY: scenarios
scenarios: $(STAMP) ## Play tests/scenarios; REWRITE=1 writes their events anew (never a table)
	@if [ -n "$(REWRITE)" ]; then $(BIN)/python -m tests.scenarios_rewrite; fi
	@$(PYTEST) -q tests/simulation/test_scenarios.py $(ARGS)

.PHONY: check
check: $(STAMP) ## Format, lint, types, import contracts, tidiness (under 30 s)
	@$(BIN)/ruff format --check --quiet . || { echo "run: $(BIN)/ruff format ." >&2; exit 1; }
	@$(BIN)/ruff check --quiet .
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-logo
	@$(BIN)/pytest -q -p no:randomly -p no:cacheprovider tests/tidy

.PHONY: report
report: $(STAMP) ## Show what is larger or more involved than most: places to look, not verdicts
	@$(BIN)/python -m tests.tidy.measure
	@$(BIN)/ruff check --exit-zero --quiet --output-format concise --select C90,PLR0913,PLR0915 src

.PHONY: bench
bench: $(STAMP) ## Measure throughput and latency of a broker on this machine
	@$(BIN)/python -m benchmarks $(ARGS)

.PHONY: docs
docs: $(STAMP) ## Rewrite the generated pages (docs/configuration.md, docs/protocol_support.md)
	@$(BIN)/python -m tests.tidy.generated

.PHONY: lock
lock: ## Resolve the newest allowed dependencies and pin them in constraints.txt
	@rm -rf .cache/lock && mkdir -p .cache && $(PYTHON) -m venv .cache/lock
	@.cache/lock/bin/python -m pip install --quiet '.[dev,clients,spark,tables]'
	@{ echo "# Every package the tests ran with, pinned; rewritten by \`make lock\`."; \
	   .cache/lock/bin/python -m pip freeze --exclude tidelog; } > constraints.txt.new
	@mv constraints.txt.new constraints.txt && rm -rf .cache/lock build
	@echo "constraints.txt rewritten; now: make test"

.PHONY: clean
clean: ## Remove everything that can be made again
	rm -rf $(VENV) .cache .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis build dist
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
