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
unexport ARGS DATA SCORES SEED
MAKEOVERRIDES :=

PAPER  := B1 B1c L2 L2c L3 L3c B1v2 Post
OURS   := L3t M3 J3 Q3 Q3cv L3ct M3d
JOINT  := E2 E3 F2 F3
ON_DATA := $(if $(DATA),--data.root $(DATA))

.PHONY: help setup test slurm-test hashes help-texts lint table fit sweep report docs docs-picture audio-demo verify-demo faults fuzz attack bench golden clean $(PAPER) $(OURS) $(JOINT)

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
	$(PIP) $(if $(HASHED),--no-build-isolation) --constraint constraints.txt --editable '.[audio,report,onnx,serve,docs,dev]'
	@touch $@

setup: $(READY)  ## Create the environment in .venv

test: $(READY)  ## Run all tests
	$(BIN)/python -m pytest -q --numprocesses auto --dist loadfile --no-loadscope-reorder --durations 20 $(ARGS)

slurm-test: $(READY)  ## Run jobs on a real SLURM of two nodes, set up here (root, Debian; else skipped)
	$(BIN)/python -m tests.slurm $(ARGS)

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
M3d: ## Train and evaluate M3d (ours), M3 in which no better score counts against a trial
E2: ## Train and evaluate E2 (joint), one score of both embeddings in a row: Baseline2
E3: ## Train and evaluate E3 (joint), three classes of both embeddings in a row
F2: ## Train and evaluate F2 (joint), one score of the CM embedding conditioned on the speakers
F3: ## Train and evaluate F3 (joint), three classes of the CM embedding conditioned on the speakers
$(PAPER) $(OURS) $(JOINT): %: $(READY)
	$(BIN)/lightning fit --config configs/$*.yaml --seed_everything $(SEED) $(ON_DATA) $(ARGS)

sweep: $(READY)  ## Run the W&B sweep over systems and seeds (offline when not logged in)
	$(BIN)/lightning sweep experiments/table1/sweep.yaml $(ON_DATA) $(ARGS)

report: $(READY)  ## HTML report of the results in results/table1
	$(BIN)/lightning report results/table1 $(ARGS)

docs: $(READY)  ## Build the docs site in site/; whatever is broken ends it
	$(BIN)/python docs/generate.py build/docs
	$(BIN)/python docs/tutorials/render.py build/docs/tutorials
	$(BIN)/zensical build --clean --strict
	$(BIN)/python docs/links.py site

docs-picture: $(READY)  ## Draw the picture of the docs' first page anew (minutes, Chromium)
	PYTHONPATH=. $(BIN)/python docs/picture.py

# Weights are looked for in a folder weights/ beside AUDIO; otherwise `lightning extract` looks into the caches.
DEMO ?= results/audio_demo
CM   ?= $(firstword $(wildcard $(AUDIO)/../weights/AASIST.pth $(AUDIO)/../../weights/AASIST.pth))
ASV  ?= $(firstword $(wildcard $(AUDIO)/../weights/ecapa $(AUDIO)/../../weights/ecapa))
audio-demo: $(READY)  ## Audio to results: AUDIO=DIR (ASVspoof 2019 LA layout), CM=AASIST.pth, ASV=ecapa folder
	@test -n "$(AUDIO)" || { echo "say where the audio is: make audio-demo AUDIO=DIR [CM=FILE] [ASV=DIR]"; exit 2; }
	$(BIN)/lightning extract --audio "$(AUDIO)" --out "$(DEMO)/embeddings" --train_asv $(if $(CM),--cm "$(CM)") $(if $(ASV),--asv "$(ASV)")
	$(BIN)/lightning fit --config configs/model/small_corpus.yaml --model.systems '[L3c,B1,B1c,L2,L2c,L3,B1v2,Post]' --data.root "$(DEMO)/embeddings" --data.protocols "$(AUDIO)" $(ARGS)
	$(BIN)/lightning table --data.root "$(DEMO)/embeddings" --data.protocols "$(AUDIO)" --epochs 40 --lr 2e-4 --weight_decay 0.03 --class_weights '[0.99,0.01]' --out "$(DEMO)/table1"

VERIFY ?= results/verify_demo
verify-demo: $(READY)  ## Audio to decisions by a bundle without torch: AUDIO=DIR, CM=AASIST.pth, ASV=ecapa folder
	@test -n "$(AUDIO)" || { echo "say where the audio is: make verify-demo AUDIO=DIR [CM=FILE] [ASV=DIR]"; exit 2; }
	$(BIN)/lightning extract --audio "$(AUDIO)" --out "$(DEMO)/embeddings" $(if $(CM),--cm "$(CM)") $(if $(ASV),--asv "$(ASV)")
	$(BIN)/lightning fit --config configs/model/small_corpus.yaml --model.systems '[M3d,L3t]' --data.root "$(DEMO)/embeddings" --data.protocols "$(AUDIO)" --trainer.logger false --trainer.default_root_dir "$(VERIFY)/training"
	$(BIN)/lightning export --fitted "$(VERIFY)/training" --with-front-ends $(if $(CM),--cm "$(CM)") $(if $(ASV),--asv "$(ASV)") --out "$(VERIFY)/bundle" --overwrite
	$(BIN)/python experiments/verify/demo.py --bundle "$(VERIFY)/bundle" --audio "$(AUDIO)" --scores "$(VERIFY)/training/scores/eval.csv" --out "$(VERIFY)" $(ARGS)

faults: $(READY)  ## Kill and resume runs at 200 random moments each
	$(BIN)/python -m tests.faults.kill_resume --points 200

fuzz: $(READY)  ## Give each reader 10,000 broken files, and counts 10,000 sets of trials
	SASV_FUZZ_EXAMPLES=10000 $(BIN)/python -m pytest -q tests/fuzz tests/counting

attack: $(READY)  ## Try every hostile file, signal and environment on every command (hours; ARGS='--share 0.01')
	$(BIN)/python -m tests.hostile $(ARGS)

bench: $(READY)  ## Run the benchmarks
	@set -e; for script in benchmarks/bench_*.py; do echo "== $$script"; $(BIN)/python $$script; done

golden: $(READY)  ## Check golden values on downloaded public scores (SCORES=DIR: on those that are there)
	$(BIN)/python experiments/referee/golden.py $(if $(SCORES),--data "$(SCORES)") $(ARGS)

clean:  ## Remove the environment and caches, not results
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
