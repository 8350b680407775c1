# `make demo`, `make test`, and `make test-fast` while working. Each sets up its own environment in .venv from nothing.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
SOURCES := pyproject.toml CMakeLists.txt $(wildcard kernels/*)

.PHONY: demo test test-fast fuzz reproduce docs gallery check unit coverage package format stubs sanitize bench bench-quick clean

demo: $(VENV)/.installed
	$(BIN)/python -m fieldfit.demo --out demo-output

test: check unit

# Two processes. Each runs one half of the files in their order, so that what a file prepares for its tests is prepared once;
# the first to finish takes tests from the other.
PYTEST := $(BIN)/python -m pytest -n 2 --dist worksteal

# pytest keeps the tests as it has compiled them for the next run, also where PYTHONDONTWRITEBYTECODE is set.
test-fast unit: export PYTHONDONTWRITEBYTECODE :=

# Everything but the tests marked slow: about two minutes with two processors.
test-fast: $(VENV)/.installed
	$(PYTEST) -q -m "not slow"

reproduce: $(VENV)/.installed
	$(BIN)/fieldfit reproduce all --scale small --out reproduction-output

# All benchmarks in half an hour (they write docs/benchmarks.md), and a few in three minutes. Ratios that have fallen since
# the committed page are marked. What is missing is run by the next call; BENCH=--fresh starts anew. Peers get .venv-peers.
BENCH ?=
bench: $(VENV)/.installed
	$(BIN)/python benchmarks/write_page.py $(BENCH)

bench-quick: $(VENV)/.installed
	$(BIN)/python benchmarks/write_page.py --quick $(BENCH)

# Every reader with changed input, at random (CASES for each) and by coverage (at most GUIDED seconds for each); hours.
# Cases that found new branches: FUZZED/TARGET.
CASES := 1000000
GUIDED := 300
FUZZED := build/fuzzed
JOBS := 2
fuzz: $(VENV)/.installed
	$(BIN)/python -m tests.fuzz --cases $(CASES) --jobs $(JOBS)
	for target in $$($(BIN)/python -m tests.fuzz --list); do \
	  $(BIN)/python -m tests.fuzz.guided $$target --cases $(CASES) --seconds $(GUIDED) --found $(FUZZED)/$$target || exit 1; done

# The pictures of docs/gallery.md in the repository; needs the data of the worked examples (FIELDFIT_DATA).
gallery: $(VENV)/.installed
	$(BIN)/python docs/gallery.py

# The site, with warnings as errors: docs/_build/index.html. It draws the gallery where the data are installed.
docs: $(VENV)/.installed
	$(BIN)/sphinx-build -W --keep-going -q -b html docs docs/_build

check: $(VENV)/.installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/clang-format --dry-run --Werror kernels/*.hpp kernels/*.cpp
	$(BIN)/mypy
	$(BIN)/lint-imports

unit: $(VENV)/.installed
	$(PYTEST)

# Which lines no test runs; the report is htmlcov/index.html.
coverage: $(VENV)/.installed
	$(PYTEST) -q -m "not slow" --cov --cov-report=html --cov-report=term:skip-covered

# The source distribution and the wheel built from it, installed in an empty environment, where the fast tests pass.
# A part of them: make package PACKAGE_TESTS="tests/api tests/cli".
PACKAGED := .venv-package
PACKAGE_TESTS := tests
package:
	rm -rf dist $(PACKAGED)
	$(PYTHON) -m venv $(PACKAGED)
	$(PACKAGED)/bin/python -m pip install --quiet build
	$(PACKAGED)/bin/python -m build --outdir dist
	$(PACKAGED)/bin/python -m pip install --quiet "$$(ls $(CURDIR)/dist/*.whl)[dev]"
	mkdir -p $(PACKAGED)/elsewhere && cp -r tests docs benchmarks *.md CITATION.cff pyproject.toml Makefile $(PACKAGED)/elsewhere/
	cd $(PACKAGED)/elsewhere && ../bin/python -m pytest -n 2 -q -m "not slow" $(PACKAGE_TESTS)

format: $(VENV)/.installed
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	$(BIN)/clang-format -i kernels/*.hpp kernels/*.cpp

# The types of the compiled kernels, written by nanobind; a test compares them.
stubs: $(VENV)/.installed
	$(BIN)/python -m nanobind.stubgen -q -m fieldfit._kernels -o src/fieldfit/_kernels.pyi
	$(BIN)/ruff format -q src/fieldfit/_kernels.pyi

$(VENV)/.installed: $(SOURCES)
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	touch $@

# The kernels' own tests with AddressSanitizer and UBSan, in an environment of their own.
SANITIZED := .venv-sanitize
KERNEL_TESTS := kernels inference models optim weights/test_information.py data/test_alignments.py data/test_attributes.py \
  data/test_name_table.py data/test_templates.py estimators/test_single_sentences.py networks/test_logistic_paths.py policies/test_policy_laws.py
LIBRARY = $$($(CXX) -print-file-name=lib$(1).so)

sanitize: $(SANITIZED)/.installed
	cd tests && LD_PRELOAD="$(call LIBRARY,asan) $(call LIBRARY,ubsan)" ASAN_OPTIONS=detect_leaks=0 FIELDFIT_NUM_THREADS=2 \
	../$(SANITIZED)/bin/python -m pytest -q -n 2 -m "not slow" $(KERNEL_TESTS)

$(SANITIZED)/.installed: $(SOURCES)
	test -x $(SANITIZED)/bin/python || $(PYTHON) -m venv $(SANITIZED)
	$(SANITIZED)/bin/python -m pip install --quiet --config-settings=cmake.define.FIELDFIT_SANITIZE=ON \
	--config-settings=build-dir=build/sanitize '.[dev]'
	touch $@

clean:
	rm -rf $(VENV) .venv-peers .bench $(SANITIZED) $(PACKAGED) build docs/_build docs/generated dist htmlcov demo-output reproduction-output
