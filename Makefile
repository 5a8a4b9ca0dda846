# Each target does its own set-up: only Python 3.11+ and make are needed.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
OUT    ?= demo
PYTHON_LOWEST ?= $(or $(shell command -v python3.11),$(PYTHON))
PEERS  := .venv-peers
LOWEST := .venv-lowest
FUZZ   := .venv-fuzz
FUZZ_SECONDS ?= 600
AUDIT  := .venv-audit
DIST   := .venv-dist

.PHONY: venv demo test test-numeric test-slow test-lowest coverage lint layers house audit bench bench-peers fuzz docs dist try-wheel clean

venv: $(VENV)/.installed

$(VENV)/.python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "nodeproof needs Python 3.11 or newer; set PYTHON=/path/to/python3.11"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	@touch $@

# What a user installs, for the demo; all else needs the tools of the tests, which are many times
# as large and come on top of it.
$(VENV)/.plain: pyproject.toml | $(VENV)/.python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[plot]'
	@touch $@

$(VENV)/.installed: pyproject.toml | $(VENV)/.python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[test]'
	@touch $(VENV)/.plain $@

demo: $(VENV)/.plain
	$(BIN)/nodeproof demo --out $(OUT)

# Files stay whole on one worker, for their fixtures, in the order of tests/conftest.py. Loops are compiled once for all workers
# (tests/compile_once.py), and so are modules, whatever the shell says: tests start many processes.
SHARED := -n auto --dist loadfile --no-loadscope-reorder
PYTEST := -m pytest $(SHARED)
test test-numeric test-slow test-lowest: export PYTHONDONTWRITEBYTECODE =
# The workers take all cores. Threads of OpenMP and of BLAS that wait would keep these busy with
# waiting; tests that are about threads ask for more.
test test-numeric test-slow test-lowest coverage: export OMP_WAIT_POLICY = passive
test test-numeric test-slow test-lowest coverage: export OPENBLAS_NUM_THREADS = 1

# Everything that takes seconds, and the doctests.
test: lint
	$(BIN)/python $(PYTEST)

# The tests marked `numeric`, whose last bits differ from CPU to CPU, with the instructions of other
# CPUs, as far as this one has them; `test` runs them with its own.
test-numeric: venv
	$(BIN)/python tools/every_cpu.py -q $(SHARED)

# The tests marked `slow`: kills at random moments, thousands of instances, the built pages.
test-slow: venv
	$(BIN)/python $(PYTEST) -m slow tests

# The fast tests with the oldest versions that pyproject.toml allows, on the oldest Python. Left out
# are pages and examples, which show what the newest versions print or a browser does, benchmarks,
# which users do not install, and what is about our own source, proofs, records and probabilities
# alone and asks nothing of other packages that the rest does not ask.
# What is compiled is kept apart: another numba would throw away what that of .venv keeps.
LEFT_OUT := app_browser bench benchmark_peers benchmark_real browser cado calibration \
  certificate_ascent certificate_auditor certificate_budgets certificate_edges \
  certificate_families certificate_files certificate_forged certificate_mutants \
  certificate_never_wrong certificate_pooled certificate_spectrum certificate_steps \
  certificate_verify characteristic checkpoint_refused docs evaluation examples \
  experiments_claims experiments_summary experiments_theorem house ordering paper_slips parts \
  potts program_certificate recovery report_page security theory theory_check tools
test-lowest: $(LOWEST)/.installed
	NUMBA_CACHE_DIR=$(CURDIR)/$(LOWEST)/numba $(LOWEST)/bin/python $(PYTEST) \
	  $(LEFT_OUT:%=--ignore tests/test_%.py) $(TESTS)

$(LOWEST)/.installed: pyproject.toml tools/lowest.py | venv
	@$(PYTHON_LOWEST) -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11))' \
	  || { echo "the oldest Python is 3.11; set PYTHON_LOWEST=/path/to/python3.11"; exit 1; }
	$(PYTHON_LOWEST) -m venv --clear $(LOWEST)
	@echo '*' > $(LOWEST)/.gitignore
	$(BIN)/python tools/lowest.py test > $(LOWEST)/pins.txt
	$(LOWEST)/bin/python -m pip install --quiet --disable-pip-version-check \
	  --requirement $(LOWEST)/pins.txt
	$(LOWEST)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --editable .
	@touch $@

# Known vulnerabilities of what is installed in .venv; AUDIT_OPTIONS=--unreachable-ok goes on
# where no list of them can be reached.
audit: venv $(AUDIT)/.installed
	$(AUDIT)/bin/python tools/audit.py $(AUDIT_OPTIONS) \
	  "$$($(BIN)/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')"

$(AUDIT)/.installed: pyproject.toml
	$(PYTHON) -m venv $(AUDIT)
	@echo '*' > $(AUDIT)/.gitignore
	$(AUDIT)/bin/python -m pip install --quiet --disable-pip-version-check 'pip-audit>=2.7'
	@touch $@

lint: venv
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo --cache-dir build/imports

# The fast tests with branches counted; what they leave out is listed, and in build/coverage as
# pages. Compiled loops do not show: tests/test_plain_kernels.py runs them as Python.
coverage: venv
	$(BIN)/python -m pytest $(SHARED) --cov --cov-report term \
	  --cov-report html:build/coverage

# Size, cycles, private reads, calls of a fit: the tree as it is, beside its targets.
house: venv
	$(BIN)/python tools/house.py

# docs/img/layers.svg, after a room was added or has moved.
layers: venv
	$(BIN)/python tools/layers.py

# Sizes and more by BENCH='--links 1e6,1e7,1e8'; finished measurements in build/bench are kept.
bench: venv
	$(BIN)/python benchmarks/planted.py
	$(BIN)/python benchmarks/scale.py $(BENCH)

# Options by BENCH='--quick'; benchmarks/README.md says where graphs and torch's CPU build are from.
bench-peers: $(PEERS)/.installed
	$(PEERS)/bin/python benchmarks/real.py $(BENCH)

$(PEERS)/.installed: pyproject.toml benchmarks/requirements-peers.txt
	$(PYTHON) -m venv $(PEERS)
	@echo '*' > $(PEERS)/.gitignore
	$(PEERS)/bin/python -m pip install --quiet --disable-pip-version-check \
	  --requirement benchmarks/requirements-peers.txt --editable '.[plot]'
	@touch $@

# FUZZ_SECONDS for each target; what is found lies in build/fuzz.
fuzz: $(FUZZ)/.installed
	for target in readers fit load; do $(FUZZ)/bin/python fuzz/fuzz_$$target.py \
	  -max_total_time=$(FUZZ_SECONDS) -print_final_stats=1 || exit 1; done

$(FUZZ)/.installed: pyproject.toml
	$(PYTHON) -m venv $(FUZZ)
	@echo '*' > $(FUZZ)/.gitignore
	$(FUZZ)/bin/python -m pip install --quiet --disable-pip-version-check \
	  'atheris>=2.3' --editable '.[convex,io]'
	@touch $@

docs: venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[docs]'
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

# What is uploaded: the source archive and the wheel, checked, in dist/.
dist: $(DIST)/.installed
	rm -rf dist
	$(DIST)/bin/python -m build
	$(DIST)/bin/python -m twine check --strict dist/*

# The wheel on every supported Python that is installed here, with the oldest and the newest
# dependencies; more by TRY='--tests tests/test_cli.py'.
try-wheel: dist
	$(DIST)/bin/python tools/try_wheel.py $(TRY)

$(DIST)/.installed:
	$(PYTHON) -m venv $(DIST)
	@echo '*' > $(DIST)/.gitignore
	$(DIST)/bin/python -m pip install --quiet --disable-pip-version-check \
	  'build>=1.2' 'twine>=6' 'uv>=0.5'
	@touch $@

clean:
	rm -rf $(VENV) $(PEERS) $(LOWEST) $(FUZZ) $(AUDIT) $(DIST) build dist site demo .pytest_cache .mypy_cache .ruff_cache
