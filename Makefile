# `make demo` and `make test` set up everything they need in .venv.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: demo test lint bench clean

demo: $(VENV)/.package
	$(BIN)/rve demo --out demo-out

test: $(VENV)/.tools lint
	$(BIN)/python -m pytest $(PYTEST)

bench: $(VENV)/.package
	$(BIN)/python -m benchmarks $(BENCH)

lint: $(VENV)/.tools
	$(BIN)/ruff check .
	$(BIN)/mypy

$(VENV)/.package: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade "pip>=25.1"
	$(BIN)/python -m pip install --quiet --editable .
	touch $@

$(VENV)/.tools: $(VENV)/.package
	$(BIN)/python -m pip install --quiet --group test --group lint
	touch $@

clean:
	rm -rf $(VENV) demo-out bench-out build dist
