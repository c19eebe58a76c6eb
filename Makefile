# Two commands on a fresh machine with Python 3.11+: `make demo` and `make test`.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
# One BLAS thread per process: tests run in two processes, and results do not depend on the machine.
export OPENBLAS_NUM_THREADS ?= 1
export OMP_NUM_THREADS ?= 1
export MPLBACKEND ?= Agg

.PHONY: demo test test-engine test-slow check format bench lock clean

$(VENV)/.ready: requirements/dev.txt pyproject.toml
	$(PYTHON) -c 'import sys; assert sys.version_info >= (3, 11), "dpcape needs Python 3.11 or newer; got " + sys.version'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --requirement requirements/dev.txt
	$(BIN)/pip install --quiet --no-deps --no-build-isolation --editable .
	touch $@

demo: $(VENV)/.ready
	$(BIN)/dpcape demo --out demo

test: $(VENV)/.ready
	$(BIN)/pytest -n 2 -m "not slow and not engine"

# NVIDIA FLARE is installed on demand: its versions are locked against the others'.
$(VENV)/.engine-ready: requirements/engine.txt $(VENV)/.ready
	$(BIN)/pip install --quiet --requirement requirements/engine.txt
	touch $@

test-engine: $(VENV)/.engine-ready
	$(BIN)/pytest -m engine tests/engine

test-slow: $(VENV)/.ready
	$(BIN)/pytest -n 2 -m "slow and not engine"

check: $(VENV)/.ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(VENV)/.ready
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(VENV)/.ready
	$(BIN)/python benchmarks/run.py

# Rewrites the locked versions from pyproject.toml; needs uv.
lock:
	uv pip compile pyproject.toml --extra dev --universal --python-version 3.11 --no-emit-index-url --no-header -o requirements/dev.txt
	uv pip compile pyproject.toml --extra engine -c requirements/dev.txt --universal --python-version 3.11 --no-emit-index-url --no-header -o requirements/engine.txt

clean:
	rm -rf $(VENV) demo out dist build
