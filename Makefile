# Everything starts from Python 3.11 or newer and make. `make help` lists the targets.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
RLLIB := .venv-rllib
RLLIB_READY := $(RLLIB)/.ready
.PHONY: help demo test test-slow test-rllib lint types bench ppo influence reproduce docs clean

help: ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /  make \1\t/' | expand -t 20

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -c "import sys; assert sys.version_info >= (3, 11), 'Handrail needs Python 3.11 or newer'"
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt torch
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[box2d,fast,tensorboard,sb3,onnx,optuna,ray,slurm,studio,dev]"
	@touch $@

# RLlib pins its Gymnasium, whose extra for Box2D builds it from source: Box2D has wheels.
$(RLLIB_READY): pyproject.toml constraints-rllib.txt
	$(PYTHON) -m venv $(RLLIB)
	$(RLLIB)/bin/python -m pip install --quiet --disable-pip-version-check -c constraints-rllib.txt torch
	$(RLLIB)/bin/python -m pip install --quiet --disable-pip-version-check -c constraints-rllib.txt -e ".[rllib]" Box2D pygame-ce pytest hypothesis
	@touch $@

demo: $(READY) ## train Cartpole from its constraint file on 3 seeds, and write a report with pictures
	$(BIN)/handrail train cartpole --episodes 100 --seeds 3

# One thread: with the other core busy, small two-thread operations wait for each other.
test test-slow test-rllib: export OMP_NUM_THREADS := 1
test test-slow test-rllib: export OPENBLAS_NUM_THREADS := 1

test: lint ## all checks and tests
	$(BIN)/python -m pytest -n 2 --dist loadfile

test-slow: $(READY) ## the long checks too
	$(BIN)/python -m pytest -n 2 --dist loadfile -m "slow or not slow"

test-rllib: $(RLLIB_READY) ## what needs RLlib, in an environment of its own
	$(RLLIB)/bin/python -m pytest tests/rllib

TSC := npx --yes --package typescript@5.9.3 tsc

lint: $(READY) types ## ruff, mypy --strict, layers, types of the studio's page
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy --strict
	$(BIN)/lint-imports

types: ## of the studio's page, where Node can get TypeScript
	@if $(TSC) --version >/dev/null 2>&1; then $(TSC) -p src/handrail/studio/page; \
	else echo "The types of the studio's page are not checked: npx cannot run TypeScript here."; fi

bench: $(READY) ## side-by-side timings, written to docs/benchmarks
	$(BIN)/python -m benchmarks
	$(BIN)/python -m benchmarks.proof.effort

ppo: $(READY) ## Stable-Baselines3 with a handrail and without (an hour and a half), written to docs/benchmarks/ppo.md
	$(BIN)/python -m benchmarks.ppo

influence: $(READY) ## what held knowledge costs and gives elsewhere (hours; goes on from docs/benchmarks/influence.jsonl), written to docs/benchmarks/influence.md
	$(BIN)/python -m benchmarks.influence

reproduce: $(READY) ## every figure, table and claim of the paper (an hour or more), kept in docs/reproduction
	rm -rf results/figures results/metrics docs/reproduction
	$(BIN)/python -m paper all
	mkdir -p docs/reproduction/figures
	cp results/README.md results/report.html docs/reproduction
	cp results/figures/*.png docs/reproduction/figures
	cp -r results/metrics docs/reproduction

docs: $(READY) ## write the reference, run every example of the docs, check their links
	$(BIN)/python docs/reference_pages.py
	$(BIN)/python docs/check.py

clean: ## forget the environments
	rm -rf $(VENV) $(RLLIB)
