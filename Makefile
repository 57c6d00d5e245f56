# Needs only make and Python 3.11 or newer. Everything is installed in the private folder .venv.
#   make demo                       see oblong at work
#   make test                       run every check
#   make demo PYTHON=python3.13     pick the interpreter

PYTHON ?= python3
VENV ?= .venv
WORKERS ?= auto
REPORT ?= oblong-report.html

# Of make fuzz: the first problem, how many, which estimators (with commas; empty for all), processes.
SEED ?= 0
COUNT ?= 1000
ESTIMATORS ?=
JOBS ?= $(shell getconf _NPROCESSORS_ONLN)
OUTPUT ?=

BIN := $(VENV)/bin
CPP := $(shell find oblong -name '*.hpp' -o -name '*.cpp')
COMMA := ,
PIP := $(BIN)/python -m pip --quiet --disable-pip-version-check

# One test process per core; threads inside each would only compete for the cores.
ONE_THREAD := OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 MKL_NUM_THREADS=1 NUMBA_NUM_THREADS=1

# Byte code is kept with the installed packages, also where the environment forbids it beside the
# sources: without it, every process that the tests start compiles thousands of modules.
export PYTHONPYCACHEPREFIX := $(abspath $(VENV))/pycache
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help install native demo test test-plain boundscheck sanitize instructions coverage test-lowest fuzz lint format docs bench clean

help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

install: $(VENV)/.stamp-test ## make .venv with oblong (editable) and the test tools
	@echo "oblong is installed in $(VENV); activate it with: source $(BIN)/activate"

# In .venv, or with the Python on the path, for example of another tree's environment.
native: ## build the compiled core in this tree, where it changed (seconds)
	@$(if $(wildcard $(BIN)/python),$(BIN)/python,$(PYTHON)) build_backend/oblong_build.py $(KIND)

demo: $(VENV)/.stamp-cli ## compare classifiers on two built-in data sets
	@$(BIN)/oblong compare --report $(REPORT)

# Workers share the cache of compiled code; files are kept together so that few functions are compiled
# twice, in the order of tests/conftest.py.
PYTEST := -m pytest --numprocesses $(WORKERS) --maxprocesses 8 --dist loadfile --no-loadscope-reorder

# Coverage does not see into compiled code, so the small tests of what is compiled also run as plain Python.
LOOPS := tests/solvers/online

# Plain Python checks the indices of arrays as well. What it is not run on are the loops of files and
# of linear models, which are compiled here with their bounds checked, in a cache of their own.
BOUNDS := tests/io/test_csv.py tests/io/test_messes.py tests/io/test_numbers.py \
	tests/solvers/linear/test_row_loops.py

# The linters use one core, and the first tests share the others with them.
test: $(VENV)/.stamp-test ## run the linters and the whole test suite
	@$(MAKE) --no-print-directory --jobs 2 lint sanitize instructions test-plain boundscheck
	@echo "==> tests"
	@$(ONE_THREAD) $(BIN)/python $(PYTEST)

test-plain: $(VENV)/.stamp-test
	@echo "==> tests, without compilation"
	@$(ONE_THREAD) OBLONG_DISABLE_JIT=1 $(BIN)/python $(PYTEST) --few 1 -m 'not large' $(LOOPS)

boundscheck: $(VENV)/.stamp-test ## run tests of compiled loops with the bounds of arrays checked
	@echo "==> tests, with bounds checked"
	@$(ONE_THREAD) NUMBA_BOUNDSCHECK=1 NUMBA_CACHE_DIR=$(abspath $(VENV))/boundscheck \
		$(BIN)/python -m pytest -q --few 2 $(BOUNDS)

# Tests of compiled loops, with every index checked and memory watched; needs GCC.
WATCHED := tests/native tests/solvers/calibration tests/solvers/linear/test_batch.py \
	$(addprefix tests/solvers/margin/test_,block.py certificate.py grid.py grid_matrix.py)

sanitize: $(VENV)/.stamp-test ## run tests of the compiled core under AddressSanitizer and UBSan
	@echo "==> tests, with the compiled core sanitized"
	@$(ONE_THREAD) $(BIN)/python build_backend/oblong_build.py sanitize \
		-m pytest -q --few 2 -p no:cacheprovider $(WATCHED)

instructions: $(VENV)/.stamp-test ## run some of them with each set of instructions that the processor has
	@$(BIN)/python build_backend/oblong_build.py all
	@for level in $$($(BIN)/python -c "import oblong._native as n; print(*n._levels()[1:])"); do \
		[ $$level = baseline ] && continue; echo "==> tests, for processors of level $$level"; \
		$(ONE_THREAD) OBLONG_VARIANT=$$level $(BIN)/python -m pytest -q --few 2 $(WATCHED) || exit 1; done

coverage: $(VENV)/.stamp-test ## run the tests with coverage, compiled code included; needs GCC
	@$(BIN)/python build_backend/oblong_build.py coverage
	@find build -name '*.gcda' -delete
	@$(ONE_THREAD) OBLONG_DISABLE_JIT=1 $(BIN)/python $(PYTEST) --few 1 -m 'not large' \
		--cov --cov-report= $(LOOPS)
	@$(ONE_THREAD) OBLONG_VARIANT=coverage $(BIN)/python $(PYTEST) --cov --cov-append --cov-report term
	@$(BIN)/gcovr --root . --filter oblong/ --txt --txt-metric line build

test-lowest: ## run the tests with the oldest supported dependencies, in .venv-lowest
	@test -e .venv-lowest/.stamp || { $(PYTHON) -m venv .venv-lowest && \
		.venv-lowest/bin/python -m pip --quiet install -c tests/lowest-versions.txt -e ".[test]" \
			-e reproduction && \
		touch .venv-lowest/.stamp; }
	@$(ONE_THREAD) NUMBA_CACHE_DIR=.venv-lowest/numba .venv-lowest/bin/python $(PYTEST)

fuzz: $(VENV)/.stamp-test ## judge certificates on random problems: SEED=0 COUNT=1000 ESTIMATORS= JOBS= OUTPUT=x.json
	@$(ONE_THREAD) $(BIN)/python -m tests.fuzz.run --seed $(SEED) --count $(COUNT) --jobs $(JOBS) \
		--estimators "$(ESTIMATORS)" $(if $(OUTPUT),--output $(OUTPUT))

lint: $(VENV)/.stamp-test ## check style, formatting, the direction of imports and types
	@echo "==> ruff"
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@echo "==> import-linter"
	@$(BIN)/lint-imports
	@echo "==> mypy"
	@$(BIN)/mypy
	@echo "==> clang-format and clang-tidy"
	@$(BIN)/clang-format --dry-run --Werror $(CPP)
	@$(MAKE) --no-print-directory $(VENV)/.stamp-tidy

# Zig has headers of its own, which clang-tidy does not find.
$(VENV)/.stamp-tidy: $(CPP) .clang-tidy | $(VENV)/.stamp-test
	@if grep -q zig-c++ build/compile_commands.json; then echo "skipped: no compiler but zig"; else \
		printf '%s\n' $(filter %.cpp,$(CPP)) | xargs -P $(JOBS) -n 1 $(BIN)/clang-tidy --quiet -p build \
			--extra-arg=-Wno-unknown-warning-option --extra-arg=-Wno-ignored-optimization-argument; fi
	@touch $@

format: $(VENV)/.stamp-test ## rewrite the sources in the house style
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .
	@$(BIN)/clang-format -i $(CPP)

docs: $(VENV)/.stamp-docs ## build the documentation
	@$(BIN)/python -m sphinx -W --keep-going -q -b html docs docs/_build/html
	@echo "the documentation is in docs/_build/html/index.html"

bench: $(VENV)/.stamp-bench ## measure the speed next to other SVMs (minutes)
	@$(BIN)/python benchmarks/run.py

clean: ## remove .venv and everything that was built
	@rm -rf $(VENV) .venv-lowest build dist oblong/_native/*.so oblong/_native/*.pyi htmlcov .coverage .coverage.* coverage.xml $(REPORT)
	@rm -rf docs/_build docs/auto_examples docs/api docs/sg_execution_times.rst
	@rm -rf .pytest_cache .ruff_cache .hypothesis .import_linter_cache .mypy_cache *.egg-info
	@find oblong reproduction tests benchmarks docs examples -name __pycache__ -prune -exec rm -rf {} +

# One stamp per extra, made after a complete install and stale only when pyproject.toml changes; the stamp of the
# compiled core is stale when one of its sources is newer. The tests and the documentation also need the experiments
# of the papers, a distribution of their own. The extras test, docs and bench contain the extra cli, so installing any
# of them covers it. River comes with test here, and not in the extra: its requirements do not go with the oldest
# versions of others. Modules are compiled when they are first imported, which most of them never are. What builds the
# core stays in the environment, so that a rebuild takes seconds.
$(VENV)/.stamp-native: CMakeLists.txt $(wildcard build_backend/*.py) $(CPP) | $(VENV)/.stamp-build
	@echo "==> building the compiled core"
	@$(BIN)/python build_backend/oblong_build.py
	@touch $@

$(VENV)/.stamp-build: pyproject.toml | $(VENV)/.stamp-venv
	@echo "==> installing what builds the compiled core"
	@$(PIP) install --no-compile $$($(BIN)/python build_backend/oblong_build.py requirements)
	@touch $@

$(VENV)/.stamp-%: pyproject.toml reproduction/pyproject.toml | $(VENV)/.stamp-native
	@echo "==> installing oblong[$*] in $(VENV) (once; takes a minute)"
	@$(PIP) install --no-compile --no-build-isolation \
		--editable ".[$(if $(filter test,$*),test$(COMMA)river,$*)]"
	@$(if $(filter test docs,$*),$(PIP) install --no-compile --editable reproduction)
	@touch $(VENV)/.stamp-cli $@

$(VENV)/.stamp-venv:
	@command -v $(PYTHON) >/dev/null || { \
		echo "$(PYTHON) was not found; name a Python 3.11 or newer: make PYTHON=python3.12" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "oblong needs Python 3.11 or newer, but $(PYTHON) is" "$$($(PYTHON) --version 2>&1)" >&2; \
		echo "name another one: make PYTHON=python3.12" >&2; exit 1; }
	@echo "==> creating $(VENV) with $$($(PYTHON) --version)"
	@$(PYTHON) -m venv $(VENV) || { \
		echo "could not create $(VENV); on Debian and Ubuntu: apt install python3-venv" >&2; exit 1; }
	@touch $@
