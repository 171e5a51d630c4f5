# Two commands, each doing its own set-up:
#   make train   the demo run: documents in, training steps of unmodified verl out
#   make test    unit tests, and a run of the trainer for each system and each kind of estimator; make fast: no runs
#   make test-all  linters, these, what takes longer (make slow), all other runs (make runs)
#   make release  test-all, all papers' chains, runs on other ranks and with deaths, faults that the GPU check has to find
#   make gpu-check  thirteen minutes on one GPU, random weights, no network (docs/cluster.md)
#   make docs   site/: these pages as a site, without network
#   make wheel  dist/: a wheel and a source distribution (CONTRIBUTING.md)
#   make documents  real PDFs for measuring retrieval, fetched and ingested (benchmarks/retrieval/README.md)
#   make viewer  the viewer's page of its sources, with npm (docagent_rl/lab/viewer/frontend)
#   make faults  damaged input in great numbers (docs/faults.md); a short form is in test-all
#   make mutants  what the tests of the core would miss: small changes of it, each tried
#   make adversary  texts that are rewarded wrongly, searched for (docs/rule_judge.md)
.PHONY: train test test-all release fast slow core runs rest mutants adversary faults gpu-check documents lint viewer wheel docs setup loaders demo clean
.DEFAULT_GOAL := help

PYTHON ?=
RECIPE ?= vrag_rl_qwen2_5_vl_7b
WORKSPACE ?= workspace
BIN := .venv/bin
# two processes, a file of tests in one of them
FAST := -n 2 --dist loadfile
# slow ones wait for processes of their own
SLOW := -n 3 --dist loadfile --no-loadscope-reorder
PYTEST := $${WARM_PYTHON:-$(BIN)/python} -m pytest --durations=20 --durations-min=1
# tests of all stages, and the processes that they start, are forks of one interpreter with its imports done
TOGETHER := $(BIN)/python -m tools.warm $(MAKE) --no-print-directory
export DOCAGENT_WORKSPACE := $(WORKSPACE)
# tests compiled by one process are read by the next
export PYTHONDONTWRITEBYTECODE :=
# the demo and the tests run on the CPU, also where there is an accelerator
ifneq ($(shell command -v nvidia-smi 2>/dev/null),)
ifeq ($(filter gpu-check,$(MAKECMDGOALS)),)
export VERL_PLATFORM := cpu
endif
endif

help:
	@sed -n '1,13p' Makefile

setup:
	@PYTHON="$(PYTHON)" tools/setup.sh

demo: setup
	@$(BIN)/docagent-rl demo --workspace $(WORKSPACE) --claim
	@tools/fetch_pdfs.sh $(WORKSPACE)/pdfs
	@$(BIN)/docagent-rl demo --workspace $(WORKSPACE)

train: demo
	$(BIN)/python -m verl.trainer.main_ppo --config-name $(RECIPE) +profile=cpu $(ARGS)

# packages whose own pins are not ours: those whose loaders read our exports in tests, those that build the site
loaders: .venv/loaders/requirements.txt
.venv/%/requirements.txt: requirements/%.txt setup
	@cmp -s $< $@ || { rm -rf .venv/$* && PATH="$$PWD/.venv/tool/bin:$$PATH" uv pip install --quiet \
	    --python $(BIN)/python --no-deps --require-hashes --target .venv/$* -r $<; } && cp $< $@

# the pages as a site, without network; a link to a page, heading or file that is not there ends it
docs: .venv/docs/requirements.txt
	@rm -rf site
	PYTHONPATH=.venv/docs $(BIN)/python -m sphinx --quiet --nitpicky --fail-on-warning --keep-going \
	    --fresh-env --conf-dir docs --doctree-dir build/docs . site

test: loaders
	@$(TOGETHER) fast core

# what is wrong shows early: linters and types, fast tests, slow ones, runs of the trainer
test-all: loaders
	@$(TOGETHER) lint docs fast slow runs

# before a release, and after a change of the stages of papers or of the GPU check
release: loaders
	@$(TOGETHER) lint docs fast slow runs rest

fast: loaders
	$(PYTEST) -m "not e2e and not slow" $(FAST)

slow: loaders
	$(PYTEST) -m "slow and not e2e and not release" $(SLOW)

core: loaders
	$(PYTEST) -m core tests/e2e

runs: loaders
	$(PYTEST) -m "not release" tests/e2e

# what only `make release` runs
rest: loaders
	$(PYTEST) -m release tests/e2e tests/tools/gpu_check

# small changes of the core's numerics, each of which a test has to notice (tools/mutants); ARGS='--only losses'
mutants: setup
	$(BIN)/python -m tools.mutants $(ARGS)

# ARGS='--texts 100000 --seed 7'
adversary: setup
	$(BIN)/python -m tests.rewards.adversary $(ARGS)

faults: setup
	$(BIN)/python -m pytest tests/faults -n 2 --dist loadfile --faults=10

# in the environment that is there: set-up would install the CPU's. CHECK='--only models' runs one
gpu-check:
	@$(if $(wildcard $(BIN)/python),$(BIN)/python,python3) -m tools.gpu_check $(CHECK)

documents: setup
	@$(BIN)/python -m tools.documents $(WORKSPACE)/documents/pdfs
	@$(BIN)/docagent-rl ingest $(WORKSPACE)/documents/pdfs --store $(WORKSPACE)/documents/store

lint: setup
	$(BIN)/ruff check . && $(BIN)/ruff format --check .
	$(BIN)/lint-imports --no-cache --no-logo
	$(BIN)/ty check
	$(BIN)/python -m tools.viewer_build --check
	$(BIN)/python -m tools.recipe_openings --check
	$(BIN)/python -m tools.verl_keys --check
	$(BIN)/python -m tools.coming_from --check
	$(BIN)/python -m tools.paper_pages --check
	$(BIN)/python -m tools.run_columns --check
	$(BIN)/python -m tools.reference --check
	$(BIN)/python -m tools.house

viewer: setup
	$(BIN)/python -m tools.viewer_build

# no network: the build backend is in the environment
wheel: setup
	@rm -rf dist
	$(BIN)/python -m hatchling build

clean:
	rm -rf $(WORKSPACE)
