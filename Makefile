# Two commands, each doing its own set-up:
#   make train   the demo run: documents in, PPO steps of unmodified verl out
#   make test    all tests; make fast leaves the end-to-end runs out
.PHONY: train test fast lint setup demo clean
.DEFAULT_GOAL := help

PYTHON ?=
RECIPE ?= vrag_rl_qwen2_5_vl_7b
WORKSPACE ?= workspace
BIN := .venv/bin
# two processes, a file of tests in one of them
FAST := -n 2 --dist loadfile
export DOCAGENT_WORKSPACE := $(WORKSPACE)
# the demo and the tests run on the CPU, also where there is an accelerator
ifneq ($(shell command -v nvidia-smi 2>/dev/null),)
export VERL_PLATFORM := cpu
endif

help:
	@sed -n '1,3p' Makefile

setup:
	@PYTHON="$(PYTHON)" tools/setup.sh

demo: setup
	@tools/fetch_pdfs.sh $(WORKSPACE)/pdfs
	@$(BIN)/docagent-rl demo --workspace $(WORKSPACE)

train: demo
	$(BIN)/python -m verl.trainer.main_ppo --config-name $(RECIPE) +profile=cpu $(ARGS)
	@echo
	@echo "Trajectories  $(WORKSPACE)/runs/$(RECIPE)/trajectories   ($(BIN)/docagent-rl view <file>)"
	@echo "Metrics       $(WORKSPACE)/runs/$(RECIPE)/metrics"
	@echo "Checkpoints   $(WORKSPACE)/runs/$(RECIPE)/checkpoints"

test: setup
	$(BIN)/python -m pytest -m "not e2e" $(FAST) && $(BIN)/python -m pytest -m e2e

fast: setup
	$(BIN)/python -m pytest -m "not e2e" $(FAST)

lint: setup
	$(BIN)/ruff check . && $(BIN)/ruff format --check .

clean:
	rm -rf $(WORKSPACE)
