# `make demo` and `make test` do all set-up on a fresh machine with Python 3.11 or later, make and a C++ compiler.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test bench clean

demo: .venv/ready
	$(BIN)/python examples/digits.py

test: .venv/ready
	$(BIN)/python -m ruff check .
	$(BIN)/python -m ruff format --check .
	$(BIN)/python -m mypy
	$(BIN)/python -m pytest -n 2 --cov --cov-report=term --cov-fail-under=95

bench: .venv/ready
	$(BIN)/python benchmarks/step.py

.venv/ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[demo,dev]'
	touch $@

clean:
	rm -rf .venv build dist
