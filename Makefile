# Each target sets up what it needs in .venv. Only Python 3.11 or newer must be installed.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready

# Two workers with one thread each: more BLAS threads would only slow each other down.
PYTEST = OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest --numprocesses 2 --dist loadgroup

# How long `make test-slow-share` may take.
MINUTES ?= 10

.DEFAULT_GOAL := help
.PHONY: help demo test test-thorough test-slow test-slow-share test-ci coverage check bench reference clean

help:
	@echo "make demo       run the demo (under a minute)"
	@echo "make test       run a sample of all tests (three minutes on two cores)"
	@echo "make test-thorough  run every case of all tests except the slow ones"
	@echo "make test-slow  run all tests, including those that take minutes"
	@echo "make test-slow-share [MINUTES=10]  run the slow tests that were green the longest time ago; writes tests/slow.json"
	@echo "make test-ci    run what CI runs: every case, and some of the slow tests"
	@echo "make coverage   run the tests and show which lines they cover"
	@echo "make check      run the linter, the type checker and the import contract"
	@echo "make bench      run the benchmarks against PyTorch, diffprivlib and OpenDP; writes docs/bench.md"
	@echo "make reference  write docs/reference/ from commands, configuration and docstrings"
	@echo "make clean      remove the virtual environment and all caches"

$(READY): pyproject.toml lab/pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "Tidegate needs Python 3.11 or newer; name one with: make PYTHON=/path/to/python3.11 $(MAKECMDGOALS)" >&2; exit 1; }
	@echo "Setting up $(VENV) (once; about a minute)"
	@$(PYTHON) -m venv $(VENV)
	@PIP_CONSTRAINT=constraints.txt $(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]' --editable lab
	@touch $@

demo: $(READY)
	@$(BIN)/tidegate demo

test: $(READY)
	@$(PYTEST) --sample

test-thorough: $(READY)
	@$(PYTEST)

test-slow: $(READY)
	@$(PYTEST) -m "slow or not slow"

test-slow-share: $(READY)
	@$(PYTEST) -m slow --slow-share $(MINUTES)

test-ci: $(READY)
	@$(PYTEST) -m "slow or not slow" --slow-some 8

coverage: $(READY)
	@$(PYTEST) --cov --cov-report term

check: $(READY)
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports

bench: $(READY)
	@PIP_CONSTRAINT=constraints.txt $(BIN)/python -m pip install --quiet --disable-pip-version-check --editable 'lab[bench]'
	@$(BIN)/python -m tidegate_lab.bench --page docs/bench.md

reference: $(READY)
	@$(BIN)/python -m reference

clean:
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache .coverage
