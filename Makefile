# Each target does its own set-up: only Python 3.11+ and make are needed.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
OUT    ?= demo
PEERS  := .venv-peers

.PHONY: venv demo test test-slow lint bench bench-peers docs clean

venv: $(VENV)/.installed

$(VENV)/.installed: pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "nodeproof needs Python 3.11 or newer; set PYTHON=/path/to/python3.11"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[test]'
	@touch $@

demo: venv
	$(BIN)/nodeproof demo --out $(OUT)

test: lint
	$(BIN)/python -m pytest -n auto --dist loadfile

test-slow: venv
	$(BIN)/python -m pytest -m slow

lint: venv
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# Sizes and more by BENCH='--links 1e6,1e7,1e8'; what is finished in build/bench is not redone.
bench: venv
	$(BIN)/python benchmarks/planted.py
	@mkdir -p build
	$(BIN)/nodeproof bench --out build/bench $(BENCH)

# Options by BENCH='--quick'; benchmarks/README.md says where graphs and torch's CPU build are from.
bench-peers: $(PEERS)/.installed
	$(PEERS)/bin/python benchmarks/real.py $(BENCH)

$(PEERS)/.installed: pyproject.toml benchmarks/requirements-peers.txt
	$(PYTHON) -m venv $(PEERS)
	@echo '*' > $(PEERS)/.gitignore
	$(PEERS)/bin/python -m pip install --quiet --disable-pip-version-check \
	  --requirement benchmarks/requirements-peers.txt --editable '.[plot]'
	@touch $@

docs: venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[docs]'
	$(BIN)/mkdocs build --strict

clean:
	rm -rf $(VENV) $(PEERS) build dist site demo .pytest_cache .mypy_cache .ruff_cache
