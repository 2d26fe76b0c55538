# The house's commands. Each sets up its own virtual environment (.venv); PYTHON=python3.12 chooses the interpreter.
SHELL := /bin/bash
.DEFAULT_GOAL := help
.PHONY: help demo test check lint bundle test-bundle test-live test-live-orders test-teeth test-tempest test-clients bench bench-nova docs clean venv venv-test

PY := .venv/bin/python
# Fast kinds first, so that a broken rule is red before a slow test has begun. `live` has a target of its own.
KINDS := arch unit property contract scenario api wire
TESTS := $(wildcard $(addprefix tests/,$(KINDS)))
FAST := $(wildcard tests/arch tests/unit tests/property)
PYTHON_FILES := src tests dev $(wildcard bench)
# Files of tests are shared out, in their order, to two processes: what waits for sockets runs beside what calculates. JOBS=0 is one.
JOBS ?= 2
SIDE_BY_SIDE = -n $(JOBS) --dist loadfile --no-loadscope-reorder
T ?=

help: ## these targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-12s %s\n", $$1, $$2}'

venv:
	@dev/venv.sh run

venv-test:
	@dev/venv.sh test

demo: venv ## a top, two zones, a third below; usage live until Ctrl-C (ONCE=1: shown once, ends by itself)
	@$(PY) dev/demo.py $(if $(filter 1 yes true,$(ONCE)),--once)

test: venv-test ## all tests that need nothing outside this machine (T='-k name' for some)
	@. dev/postgresql.sh && $(PY) -m pytest $(SIDE_BY_SIDE) $(TESTS) $(T)

check: lint ## before each commit: lint, and the tests of arch, unit and property
	@$(PY) -m pytest $(SIDE_BY_SIDE) $(FAST)

lint: venv-test ## what CI runs first: lint, format, types, import contracts
	@.venv/bin/ruff check $(PYTHON_FILES)
	@.venv/bin/ruff format --check --quiet $(PYTHON_FILES)
	@.venv/bin/mypy
	@.venv/bin/lint-imports --no-cache

test-live: venv-test ## joins two real OpenStack clouds and compares the totals (BANYAN_LIVE_CLOUDS=a,b for your own)
	@$(PY) -m pytest tests/live --ignore tests/live/test_orders.py $(T)

test-live-orders: venv-test ## the openstack driver takes orders on a real cloud: the shipped suite, duty by duty (minutes)
	@$(PY) -m pytest tests/live/test_orders.py $(T)

test-teeth: venv-test ## plants each fault of tests/teeth and sees the tests go red
	@$(PY) dev/teeth.py $(T)

test-tempest: venv-test ## OpenStack's own API tests against a cloud of ours (TIER=1, 2, 3; AREA=identity for a part)
	@$(PY) dev/tempest.py --tier $(or $(TIER),1) $(if $(AREA),--area $(AREA)) $(T)

test-clients: venv-test ## OpenStack's clients, each in an environment of its own, against a tree of ours (T=NAME for one)
	@$(PY) -m dev.clients $(T)

bundle: venv ## dist/banyan-….tar.gz: wheels and a script that installs them with the network unplugged
	@dev/bundle.sh

test-bundle: venv-test bundle ## installs that bundle in a network that leads nowhere; sites join by the shipped file (BANYAN_SITES=N)
	@$(PY) -m pytest tests/bundle $(T)

bench: venv-test ## measures, and prints what it found; docs/figures.md has ours (T=NAME for one)
	@$(PY) -m bench $(T)

bench-nova: venv-test ## the same work by a real Nova and by a zone, turn by turn (starts the lab's cloud); bench/results/nova.json
	@mkdir -p bench/results
	@$(PY) -m bench.nova $(T) > bench/results/nova.json.new
	@mv bench/results/nova.json.new bench/results/nova.json && cat bench/results/nova.json

docs: venv-test ## regenerates docs/generated
	@$(PY) dev/docs.py

clean: ## removes what these targets made
	rm -rf .venv .venv.lock .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache .demo .live dist build
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
