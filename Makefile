.DEFAULT_GOAL := help
SHELL  := /bin/bash
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready
ARGS   ?=
DATA   ?=
SEED   ?= 1986

# What is given to this make is meant for this make alone, not for one that a test starts.
unexport ARGS DATA SEED
MAKEOVERRIDES :=

PAPER  := B1 B1c L2 L2c L3 L3c B1v2 Post
OURS   := L3t M3 J3 Q3 Q3cv L3ct
ON_DATA := $(if $(DATA),--data.root $(DATA))

.PHONY: help setup test hashes help-texts lint table fit sweep report audio-demo faults fuzz attack bench clean $(PAPER) $(OURS)

help:  ## List the targets
	@grep -hE '^[a-zA-Z0-9_-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  %-10s %s\n", $$1, $$2}'
	@echo
	@echo "  DATA=DIR uses a real corpus instead of the embedded twin; ARGS='…' adds options, SEED=1986 sets the seed."

# The environment is made once, and again only when what it is made from changes. CI takes only files
# whose hashes are known (on the platform that they are known for), everybody else the same versions.
PIP    := $(BIN)/python -m pip --quiet --disable-pip-version-check install
HASHED := $(and $(filter true,$(CI)),$(shell $(PYTHON) .ci/is_hashed.py && echo yes))

$(READY): pyproject.toml constraints.txt constraints-hashed.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Python 3.11 or newer is needed; set PYTHON=…"; exit 1; }
	$(PYTHON) -m venv --clear $(VENV)
	$(if $(HASHED),$(PIP) --no-deps --require-hashes --requirement constraints-hashed.txt)
	$(PIP) $(if $(HASHED),--no-build-isolation) --constraint constraints.txt --editable '.[audio,report,dev]'
	@touch $@

setup: $(READY)  ## Create the environment in .venv

test: $(READY)  ## Run all tests
	$(BIN)/python -m pytest -q --numprocesses auto --dist loadfile $(ARGS)

hashes: $(READY)  ## Note the hashes of what CI installs, after a change of constraints.txt
	$(BIN)/python .ci/write_hashes.py

help-texts: $(READY)  ## Write the help of the training commands, after a change of their options
	$(BIN)/python .ci/write_help.py

lint: $(READY)  ## Check style and types
	$(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/mypy

table: $(READY)  ## Table 1: every system, every seed (embedded twin, or DATA=DIR)
	$(BIN)/lightning table $(ON_DATA) $(ARGS)

fit: L3c  ## Train one seed of L3c, the paper's best system

B1: ## Train and evaluate B1, the sum of raw scores
B1c: ## Train and evaluate B1c, the sum of calibrated scores
L2: ## Train and evaluate L2, linear fusion of LLRs
L2c: ## Train and evaluate L2c, linear fusion of calibrated LLRs
L3: ## Train and evaluate L3, nonlinear fusion of LLRs
L3c: ## Train and evaluate L3c, nonlinear fusion of calibrated LLRs
B1v2: ## Train and evaluate B1v2, ASV score plus CM probability
Post: ## Train and evaluate Post, product of probabilities
L3t: ## Train and evaluate L3t (ours), nonlinear fusion of Student-t LLRs
M3: ## Train and evaluate M3 (ours), nonlinear fusion of multinomial LLRs
J3: ## Train and evaluate J3 (ours), nonlinear fusion trained jointly
Q3: ## Train and evaluate Q3 (ours), nonlinear fusion of multinomial LLRs of scores and squares
Q3cv: ## Train and evaluate Q3cv (ours), Q3 chosen by cross-validation over the speakers of dev
L3ct: ## Train and evaluate L3ct (ours), L3c whose CM side is calibrated on targets
$(PAPER) $(OURS): %: $(READY)
	$(BIN)/lightning fit --config configs/$*.yaml --seed_everything $(SEED) $(ON_DATA) $(ARGS)

sweep: $(READY)  ## Run the W&B sweep over systems and seeds (offline when not logged in)
	$(BIN)/lightning sweep experiments/table1/sweep.yaml $(ON_DATA) $(ARGS)

report: $(READY)  ## HTML report of the results in results/table1
	$(BIN)/lightning report results/table1 $(ARGS)

# Weights are looked for in a folder weights/ beside AUDIO; otherwise `lightning extract` looks into the caches.
DEMO ?= results/audio_demo
CM   ?= $(firstword $(wildcard $(AUDIO)/../weights/AASIST.pth $(AUDIO)/../../weights/AASIST.pth))
ASV  ?= $(firstword $(wildcard $(AUDIO)/../weights/ecapa $(AUDIO)/../../weights/ecapa))
audio-demo: $(READY)  ## Audio to results: AUDIO=DIR (ASVspoof 2019 LA layout), CM=AASIST.pth, ASV=ecapa folder
	@test -n "$(AUDIO)" || { echo "say where the audio is: make audio-demo AUDIO=DIR [CM=FILE] [ASV=DIR]"; exit 2; }
	$(BIN)/lightning extract --audio "$(AUDIO)" --out "$(DEMO)/embeddings" --train_asv $(if $(CM),--cm "$(CM)") $(if $(ASV),--asv "$(ASV)")
	$(BIN)/lightning fit --config configs/model/small_corpus.yaml --model.systems '[L3c,B1,B1c,L2,L2c,L3,B1v2,Post]' --data.root "$(DEMO)/embeddings" --data.protocols "$(AUDIO)" $(ARGS)
	$(BIN)/lightning table --data.root "$(DEMO)/embeddings" --data.protocols "$(AUDIO)" --epochs 40 --lr 2e-4 --weight_decay 0.03 --class_weights '[0.99,0.01]' --out "$(DEMO)/table1"

faults: $(READY)  ## Kill and resume runs at 200 random moments each
	$(BIN)/python -m tests.faults.kill_resume --points 200

fuzz: $(READY)  ## Give each reader 10,000 broken files
	SASV_FUZZ_EXAMPLES=10000 $(BIN)/python -m pytest -q tests/fuzz

attack: $(READY)  ## Try every hostile file, signal and environment on every command (hours; ARGS='--share 0.01')
	$(BIN)/python -m tests.hostile $(ARGS)

bench: $(READY)  ## Run the benchmarks
	@set -e; for script in benchmarks/bench_*.py; do echo "== $$script"; $(BIN)/python $$script; done

clean:  ## Remove the environment and caches, not results
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
