# Two commands on a fresh machine with Python 3.11+: `make demo` and `make test`.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
# One BLAS thread per process: tests run in two processes, and results do not depend on the machine.
export OPENBLAS_NUM_THREADS ?= 1
export OMP_NUM_THREADS ?= 1
export MPLBACKEND ?= Agg

.PHONY: demo dist docs test test-containers test-dist test-engine test-hostile test-lowest test-newest test-pages sbom test-slow test-torch check format bench league lock clean reproduce-quick

$(VENV)/.ready: requirements/dev.txt pyproject.toml papers/pyproject.toml
	$(PYTHON) -c 'import sys; assert sys.version_info >= (3, 11), "dpcape needs Python 3.11 or newer; got " + sys.version'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --require-hashes --requirement requirements/dev.txt
	$(BIN)/pip install --quiet --no-deps --no-build-isolation --editable . --editable papers
	touch $@

demo: $(VENV)/.ready
	$(BIN)/dpcape demo --out demo

test: $(VENV)/.ready
	$(BIN)/pytest -n 2 -m "not slow and not engine and not hostile and not browser and not torch and not dist" --ignore=tests/hostile

# Wheel and source distribution, in dist/.
dist: $(VENV)/.ready
	rm -rf dist
	$(BIN)/python -m build --no-isolation --outdir dist

# Both are built, installed into fresh environments from a file, and used there.
test-dist: $(VENV)/.ready
	$(BIN)/pytest -m dist tests/dist

# What the locked environment of a site holds, as CycloneDX, beside the distributions.
sbom: $(VENV)/.ready
	$(PYTHON) -m venv $(VENV)-sbom
	$(VENV)-sbom/bin/pip install --quiet "cyclonedx-bom>=7"
	$(VENV)-sbom/bin/cyclonedx-py requirements requirements/engine.txt --pyproject pyproject.toml --output-reproducible \
		--output-file dist/sbom.cdx.json

# The image is built and a study played with the compose file; needs podman or docker, and root for the folders' owner.
CONTAINER ?= docker
test-containers: dist
	$(CONTAINER) build --file deploy/Containerfile --tag dpcape .
	sudo --preserve-env env "PATH=$$PATH" CONTAINER=$(CONTAINER) deploy/rehearse out/containers

# The lowest versions that pyproject.toml allows, and the newest of this day; each in an environment of its own.
VERSIONS = tests/study/test_run.py tests/study/test_readers.py tests/study/test_streams.py tests/study/test_dask.py \
	tests/planning tests/ica/test_ica_neuro.py tests/flow/test_commands.py tests/laws/test_records.py tests/laws/test_schema.py \
	tests/site_folder/test_chain.py
$(VENV)-lowest/.ready: requirements/lowest.txt
	$(PYTHON) -m venv $(VENV)-lowest
	$(VENV)-lowest/bin/pip install --quiet --require-hashes --requirement requirements/lowest.txt
	$(VENV)-lowest/bin/pip install --quiet --no-deps --no-build-isolation --editable . --editable papers
	touch $@

# Old libraries warn of what is deprecated in newer ones that they use.
test-lowest: $(VENV)-lowest/.ready
	$(VENV)-lowest/bin/pytest -n 2 -W ignore::DeprecationWarning -m "not slow and not engine and not torch" $(VERSIONS)

test-newest:
	$(PYTHON) -m venv --clear $(VENV)-newest
	$(VENV)-newest/bin/pip install --quiet --upgrade --editable ".[dev,fast,neuro,parquet]" ./papers
	$(VENV)-newest/bin/pytest -n 2 -m "not slow and not engine and not torch" $(VERSIONS)

# NVIDIA FLARE is installed on demand: its versions are locked against the others'.
$(VENV)/.engine-ready: requirements/engine.txt $(VENV)/.ready
	$(BIN)/pip install --quiet --require-hashes --requirement requirements/engine.txt
	touch $@

test-engine: $(VENV)/.engine-ready
	$(BIN)/pytest -m engine tests/engine

# Attacks on a real federation and on the sandbox. Needs a kernel with Landlock: without it they fail.
test-hostile: $(VENV)/.engine-ready
	$(BIN)/pytest tests/hostile

# Pages are opened in Chromium; screenshots stay under out/screenshots.
$(VENV)/.pages-ready: requirements/pages.txt $(VENV)/.ready
	$(BIN)/pip install --quiet --require-hashes --requirement requirements/pages.txt
	touch $@

test-pages: $(VENV)/.pages-ready
	scripts/install-browser
	$(BIN)/pytest -m browser tests/browser

# PyTorch is installed on demand: it is large, and dpcape works without it. Its lock has no hashes: which build fits, with or
# without CUDA, depends on the machine.
$(VENV)/.torch-ready: requirements/torch.txt $(VENV)/.ready
	$(BIN)/pip install --quiet --requirement requirements/torch.txt
	touch $@

# Modules of other packages run through a real federation too.
test-torch: $(VENV)/.torch-ready $(VENV)/.engine-ready
	$(BIN)/pytest -m torch tests/torch

test-slow: $(VENV)/.ready
	$(BIN)/pytest -n 2 -m "slow and not engine and not hostile and not browser"

# Sphinx is installed on demand, locked like the rest. Warnings are errors; gallery and notebooks run while the site is built.
$(VENV)/.docs-ready: requirements/docs.txt $(VENV)/.ready
	$(BIN)/pip install --quiet --require-hashes --requirement requirements/docs.txt
	touch $@

docs: $(VENV)/.docs-ready
	$(BIN)/sphinx-build --fail-on-warning --keep-going --jobs auto docs docs/_build/html

check: $(VENV)/.ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -W ignore::UserWarning -m numpydoc lint $$(git ls-files 'src/dpcape/*.py')
	$(BIN)/python scripts/check-prose

format: $(VENV)/.ready
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(VENV)/.ready
	$(BIN)/python benchmarks/run.py

# dpcape against other private methods at the same guarantee; LEAGUE holds options: make league LEAGUE="--quick".
league: $(VENV)/.ready
	$(BIN)/python -m experiments.league.run $(LEAGUE)

# Rewrites the locked versions, with hashes, from pyproject.toml; needs uv.
COMPILE = uv pip compile pyproject.toml --universal --python-version 3.11 --no-emit-index-url --no-header
lock:
	$(COMPILE) --generate-hashes --extra dev -o requirements/dev.txt
	$(COMPILE) --generate-hashes --extra dev --resolution lowest-direct -o requirements/lowest.txt
	$(COMPILE) --generate-hashes --extra engine -c requirements/dev.txt -o requirements/engine.txt
	$(COMPILE) --generate-hashes --extra pages -c requirements/dev.txt -o requirements/pages.txt
	$(COMPILE) --extra torch -c requirements/dev.txt -o requirements/torch.txt
	$(COMPILE) --generate-hashes --extra docs -c requirements/dev.txt -c requirements/engine.txt -o requirements/docs.txt

# Every figure and table of the papers, small: out/index.html.
reproduce-quick: $(VENV)/.ready
	$(BIN)/dpcape reproduce --all --quick --out out

clean:
	rm -rf $(VENV) $(VENV)-lowest $(VENV)-newest $(VENV)-sbom demo out dist build docs/_build docs/gallery docs/api/generated
