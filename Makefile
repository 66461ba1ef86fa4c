# Two commands for a bare machine with Python and make:  make sweep   and   make test
PYTHON ?= python3
VENV ?= .venv
BIN = $(VENV)/bin
PIP = $(BIN)/python -m pip install --quiet --disable-pip-version-check
PYTEST = OMP_NUM_THREADS=1 $(BIN)/python -m pytest

.PHONY: sweep test test-all gpu-test gpu-check lint bench clean

sweep: $(VENV)/.core
	$(BIN)/gemsweep run

test: $(VENV)/.dev
	$(PYTEST)

test-all: $(VENV)/.dev
	$(PYTEST) -m "not gpu"

gpu-test: $(VENV)/.dev
	$(PYTEST) -m gpu -rs

# Every kernel on its smallest case under NVIDIA's checkers: bad accesses, then races on shared memory.
gpu-check: $(VENV)/.dev
	for tool in memcheck racecheck; do \
	  OMP_NUM_THREADS=1 compute-sanitizer --tool $$tool --report-api-errors no --error-exitcode 9 \
	    $(BIN)/python -m pytest -m gpu tests/kernels -k "twin and 3-1" || exit 1; \
	done

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(VENV)/.dev
	$(BIN)/python benchmarks/ray_overhead.py

$(VENV)/.core: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(PIP) -e .
	touch $@

$(VENV)/.dev: $(VENV)/.core
	$(PIP) -e '.[dev]'
	touch $@

clean:
	rm -rf $(VENV) build *.egg-info
