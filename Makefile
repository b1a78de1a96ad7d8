# Every target is a line or two; ./train.sh is the whole pipeline on one page.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

STACK ?= contract
TESTS ?= tests
PYTHON3 ?= python3
# A requirement for the whole suite alone, not for a part of it.
COVERAGE = $(if $(filter tests,$(TESTS)),--cov=pipeline --cov-report=term:skip-covered,)
MARKERS ?= not gpu

# `$(ENV) &&` puts the chosen environment first on PATH, making it if need be.
ENVIRONMENT = "$(or $(PYTHON),$(PYTHON3))" requirements/environment.py --stack "$(STACK)"
ENV = bin=$$($(ENVIRONMENT)) && export PATH="$$bin:$$PATH"
ENV_DEV = bin=$$($(ENVIRONMENT) --dev) && export PATH="$$bin:$$PATH"

export HF_HUB_OFFLINE = 1
export HF_DATASETS_OFFLINE = 1
export TRANSFORMERS_OFFLINE = 1
export HF_HUB_DISABLE_TELEMETRY = 1
export DO_NOT_TRACK = 1
export DVC_NO_ANALYTICS = 1

.PHONY: help setup train test check verify blend inspect diagnose gym evaluate report use bundle lock contract-env clean

help: ## show this list
	@echo "make TARGET [PYTHON=/path/to/python: use this environment, install nothing]"
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /  \1\t/' | expand -t 16

setup: ## make .venv (STACK=newest: .venv-newest with the newest releases)
	@$(ENV) && echo "setup: $$bin/python"

train: ## the whole pipeline: params.yaml -> adapter/, run_summary.json, results.md (BASE= DATA= PANEL=)
	@./train.sh

test: ## tests with coverage (TESTS=path, MARKERS="gpu", STACK=newest)
	@$(ENV_DEV) && mkdir -p runs/coverage && python -m pytest -q -m '$(MARKERS)' $(COVERAGE) $(TESTS)

check: ## ruff and mypy
	@$(ENV_DEV) && python -m ruff check . && python -m ruff format --check . && python -m mypy

verify: ## check the published adapter against the contract, or ADAPTER=folder BASE=folder
	@$(ENV) && python -m pipeline.verify $(if $(ADAPTER),--adapter "$(ADAPTER)" $(if $(BASE),--base "$(BASE)"),--published)

blend: ## ADAPTERS="a b" OUT=folder: one adapter of several (WEIGHTS="3 1" ALPHA=0.7 BASE=folder)
	@$(ENV) && python -m pipeline.blend $(ADAPTERS) --out "$(OUT)" $(if $(WEIGHTS),--weights $(WEIGHTS)) $(if $(ALPHA),--alpha "$(ALPHA)") $(if $(BASE),--base "$(BASE)")

inspect: ## N=3: packed sequences with what is trained, on the terminal and in work/inspect.html
	@$(ENV) && python -m pipeline.inspect $(if $(N),--bins "$(N)")

diagnose: ## what is wrong with RUN=folder, or with CONFIG= PROFILE= LOG= (one or more)
	@$(ENV) && python -m pipeline.diagnose $(if $(RUN),"$(RUN)") $(if $(CONFIG),--config "$(CONFIG)") $(if $(PROFILE),--profile "$(PROFILE)") $(if $(LOG),--log "$(LOG)") $(if $(OUT),--out "$(OUT)")

gym: ## audit of the task gym: what cheats, the solver and the golds score
	@$(ENV) && python -m pipeline.gym audit

evaluate: ## only what an evaluation of the adapter needs
	@./train.sh evaluate

report: ## only up to results.md
	@./train.sh report

use: ## PRESET=name: copy presets/name.yaml over params.yaml (FORCE=1: even if edited)
	@$(ENV) && python -m pipeline.configure --preset "$(PRESET)" $(if $(FORCE),--force)

bundle: ## ./wheelhouse for a machine without a network (TARGET_PYTHON=3.11)
	@"$(PYTHON3)" requirements/bundle.py $(if $(TARGET_PYTHON),--python "$(TARGET_PYTHON)")

lock: ## resolve requirements/*.lock anew
	@"$(PYTHON3)" requirements/lock.py

contract-env: ## .venv-contract with PEFT 0.9.0, for verify beside a newer environment
	@env -u PYTHON "$(PYTHON3)" requirements/environment.py --stack contract --folder .venv-contract

clean: ## delete results, training state and caches; adapter/, run_summary.json and .venv stay
	@mkdir -p runs && flock --nonblock runs/train.lock true || { echo "make clean: a run is at work" >&2; exit 2; }
	@rm -rf work runs results.md adapter_card.md dvc.lock .dvc/cache .dvc/tmp .pytest_cache .mypy_cache .ruff_cache
