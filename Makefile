PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
# Of three tests, one waits for another process. Long suites end together where who is done takes from the others.
WORKERS = $$($(BIN)/python -c "import os; print(os.cpu_count() * 3 // 2)")
# Tests have records reach the disk by the hundred thousand: their folders are in memory where it has 16 GB for them.
# Long suites would fill it, and keep only the folders of what failed.
MEMORY = $(shell free=$$(df -k --output=avail /dev/shm 2>/dev/null | tail -n 1); \
	awk -v free="$$free" '/^MemAvailable/ && $$2 > 16e6 && free > 16e6 { print "/dev/shm" }' /proc/meminfo 2>/dev/null)
PYTEST = folder=$$(mktemp -d $(MEMORY:%=-p %)) && trap 'rm -rf "$$folder"' EXIT INT TERM && \
	$(BIN)/python -m pytest -q -n $(WORKERS) --basetemp "$$folder/tests"
# Compiled code is kept, whatever the environment says: tests and commands start many processes.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: help demo test test-slow test-all check example site bench report questions security mutants clean

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  %-10s %s\n", $$1, $$2}'

# The environment is made once, and again when a dependency changes.
$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[import]'
	$(BIN)/python -m compileall -q hive_agents graphs  # pip does so for a package that isn't editable
	@touch $@

$(VENV)/.dev: $(READY)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[import,mcp,otel,dev]'
	@touch $@

$(VENV)/.bench: $(VENV)/.dev
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[bench]'
	@touch $@

demo: $(READY) ## set up, then tell the whole story on the sample workspace
	$(BIN)/hive demo

test: $(VENV)/.dev ## set up, then run the everyday suite
	$(PYTEST) --dist loadfile -m "not slow and not static"

check: $(VENV)/.dev ## lint, types, direction of imports, what the sources may hold
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m pytest -q -m static $$(grep -rl --include="test_*.py" "mark\.static" tests)

test-slow: $(VENV)/.dev ## the long suites: kills, packaging, thousands of examples
	$(PYTEST) --dist worksteal -o tmp_path_retention_policy=failed --durations 40 -m slow $$(grep -rl --include="test_*.py" "mark\.slow" tests)

test-all: check test test-slow ## everything that CI runs

example: $(READY) ## Django's documentation: fetch, index, evaluate, optimize
	$(BIN)/python examples/django_docs/fetch.py
	$(BIN)/hive index -w examples/django_docs
	test -e examples/django_docs/configs/active.json || $(BIN)/hive deploy v1-naive -w examples/django_docs
	$(BIN)/hive evaluate -w examples/django_docs
	$(BIN)/hive optimize -w examples/django_docs || test $$? -eq 1

site: $(READY) ## the documentation as files in build/site, with a search: open build/site/index.html
	$(BIN)/python -m docs.site.build build/site

bench: $(VENV)/.bench ## the short benchmarks
	$(BIN)/python benchmarks/optimizer.py --short
	$(BIN)/python benchmarks/optimizer.py --whole 2000
	$(BIN)/python benchmarks/gate.py
	$(BIN)/python benchmarks/why.py
	$(BIN)/python benchmarks/vectors.py --rounds 5
	$(BIN)/python benchmarks/embedding.py --rounds 3
	$(BIN)/python benchmarks/engine.py --sizes
	$(BIN)/python benchmarks/copilot.py --turns 50
	$(BIN)/python benchmarks/bus.py
	$(BIN)/python benchmarks/runtime.py
	$(BIN)/python benchmarks/agents.py
	$(BIN)/python benchmarks/bm25.py --rounds 1 || echo "bm25.py needs Debian's package lists; see its first lines"

MEASURE ?=
report: $(VENV)/.bench ## each promise beside its measured figure; MEASURE=--measure runs the short benchmarks first
	$(BIN)/python benchmarks/report.py $(MEASURE)

questions: $(VENV)/.dev ## what readers ask of the documentation, and what `hive optimize` would change: a report
	rm -rf build/questions
	$(BIN)/python -m tests.help.pages build/questions
	-$(BIN)/hive optimize --no-deploy -w build/questions

security: $(VENV)/.dev ## what is promised about security, with the number of tries (half an hour)
	$(BIN)/python -m benchmarks.security

mutants: $(VENV)/.dev ## deliberate faults, one at a time: do the everyday tests notice? (not part of CI)
	$(BIN)/python benchmarks/mutants.py

clean: ## remove what make made
	rm -rf $(VENV) build dist .hypothesis .mypy_cache .pytest_cache .ruff_cache
