# Two commands: `make demo` and `make test`. Each sets up its own environment in .venv from nothing.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
SOURCES := pyproject.toml CMakeLists.txt $(wildcard kernels/*)

.PHONY: demo test check unit format sanitize clean

demo: $(VENV)/.installed
	$(BIN)/python -m fieldfit.experiments.demo --out demo-output

test: check unit

check: $(VENV)/.installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/clang-format --dry-run --Werror kernels/*.hpp kernels/*.cpp
	$(BIN)/mypy
	$(BIN)/lint-imports

unit: $(VENV)/.installed
	$(BIN)/python -m pytest -n 2

format: $(VENV)/.installed
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	$(BIN)/clang-format -i kernels/*.hpp kernels/*.cpp

$(VENV)/.installed: $(SOURCES)
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	touch $@

clean:
	rm -rf $(VENV) build demo-output
