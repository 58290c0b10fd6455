# Everything here needs python3 (3.11 or newer) with venv, and make; the rest goes into .venv.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help demo test picture reference site compiled test-slow test-quiet lint bench lab-test kernel-lab packages sample lock plotly dist wheel-smoke clean

# With LIVE=1 a page follows it in a browser, and with LIVE=ADDR:PORT it is served there.
demo: $(VENV)/.ready  ## the main job on a PostgreSQL of its own; LIVE=1 follows it in a browser
	$(BIN)/replayer run demo $(if $(LIVE),--live $(filter-out 1,$(LIVE)))

# Several files of tests at a time, as they wait for servers half of it; then, one by one, the tests
# that count what the whole machine does.  Each closes with the thirty that took longest.
PYTEST := $(BIN)/pytest --durations=30 --durations-min=1
# The files come in the order of their names, those that wait for servers before the unit tests, so
# that many short ones are left at the end; pytest-xdist would begin with those of the most tests.
# Three at a time keep two processors busy; a fourth collects all tests and starts servers as well.
BESIDE := -n 3 --dist loadfile --no-loadscope-reorder
# Not beside those of another clone either: the user's own folder is locked, as no other user can.
LOCKED := flock -o $(firstword $(wildcard $(HOME)) .)
# Only these are read for the tests that are alone: to collect all takes longer than they do.
ALONE  = $(shell grep -lr --include='test_*.py' 'mark.alone' tests)

test: compiled  ## the quick tests: 6 to 8 minutes on two processors
	$(PYTEST) $(BESIDE) -m "not slow and not quiet and not alone"
	$(LOCKED) $(PYTEST) -m "alone and not slow and not quiet" $(ALONE)

# Before a thousand processes start of which each would compile it; the tests, too, whose asserts
# every worker of a fresh clone would rewrite for itself.
compiled: $(VENV)/.ready-dev
	$(BIN)/python -m compileall -q replayer
	@ls tests/unit/__pycache__/*-pytest-*.pyc >/dev/null 2>&1 || $(BIN)/pytest --collect-only -qq >/dev/null

# What takes long, and servers of other versions, which are installed into a cache folder first.
test-slow: compiled  ## what takes long, with servers of other versions: about an hour
	$(BIN)/python -m tests.servers
	$(PYTEST) $(BESIDE) -m "slow and not quiet and not alone"
	$(LOCKED) $(PYTEST) -m "slow and alone and not quiet" $(ALONE)

# Verdicts about this machine under limits: they want it for themselves, as `make bench` does.
test-quiet: $(VENV)/.ready-dev  ## verdicts under limits, on a machine that does nothing else
	$(BIN)/pytest -m quiet

lint: $(VENV)/.ready-dev  ## ruff, mypy, and the order of imports, plain English
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m tests.idioms

# The picture of the six bands in docs/architecture.svg, drawn from the imports.
picture: $(VENV)/.ready-dev  ## docs/architecture.svg, drawn from the imports
	$(BIN)/python -m tests.architecture

# Keys, metrics and warnings as docs/reference.md, written from the code.
reference: $(VENV)/.ready-dev  ## docs/reference.md, written from the code
	$(BIN)/python -m tests.reference

# The documents as a site with search, to read from a folder or to serve.
site: $(VENV)/.ready-dev  ## the documents as a site with search, in site/
	$(BIN)/python -m tests.site

# Ratios against psql, fio, pgbench and others in the same run, on a machine that does nothing else.
bench: $(VENV)/.ready-dev  ## ratios to psql, fio, pgbench and others, on a machine that does nothing else
	$(BIN)/python -m tests.benchmarks

# The Debian packages that tests and benchmarks compare with; nothing of them is needed to run replayer.
# No server of theirs is started: a private one is started by each test.
packages:  ## install the Debian packages that tests compare with (root)
	@missing=$$(for p in $$(cat tests/debian-packages.txt); do dpkg -s $$p >/dev/null 2>&1 || echo $$p; done); \
	if [ -n "$$missing" ]; then \
	  mkdir -p /etc/postgresql-common && \
	  { [ -e /etc/postgresql-common/createcluster.conf ] || echo 'create_main_cluster = false' > /etc/postgresql-common/createcluster.conf; } && \
	  apt-get update -qq && RUNLEVEL=1 DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $$missing; \
	fi

# Two real kernels in qemu, booted by a plan and compared; skipped with a reason where qemu is missing.
kernel-lab: $(VENV)/.ready-dev  ## boot two kernels in qemu by a plan, and compare them
	$(BIN)/python -m tests.kernel_lab

# The compose lab with a Docker engine of its own and images of Debian's packages; skipped where none starts.
lab-test: $(VENV)/.ready-dev  ## the compose lab with a Docker engine of its own (root)
	$(BIN)/python -m tests.lab

# The source archive, and the wheel that is built from it, as anybody would.
dist: $(VENV)/.ready-dev  ## the wheel and the source archive
	rm -rf dist
	$(BIN)/python -m build
	$(BIN)/python -m twine check --strict dist/*

# The wheel in a bare environment, run from a folder that has nothing else.
wheel-smoke: $(VENV)/.ready-dev  ## the wheel in a bare environment
	folder=$$(mktemp -d) && trap 'rm -rf "$$folder"' EXIT && chmod 755 $$folder && \
	$(BIN)/python -m build --wheel --outdir $$folder && \
	$(PYTHON) -m venv $$folder/venv && \
	$$folder/venv/bin/python -m pip install --quiet $$folder/*.whl && \
	cd $$folder && export REPLAYER_HOME=$$folder/home && \
	venv/bin/replayer run smoke && venv/bin/replayer show latest >/dev/null && venv/bin/replayer list

# A page of one run and one of a comparison, to look at before anything is run: some 20 minutes.
sample: $(VENV)/.ready-dev  ## the sample pages in docs/sample: some 20 minutes
	$(BIN)/python -m tests.sample

# The versions with which replayer is developed and tested, on every Python and system it is for.
lock: $(VENV)/.made  ## constraints.txt, with the newest versions
	folder=$$(mktemp -d) && trap 'rm -rf "$$folder"' EXIT && $(PYTHON) -m venv $$folder && \
	$$folder/bin/python -m pip install --quiet uv && \
	$$folder/bin/uv pip compile --quiet --universal --python-version 3.11 --upgrade --no-header --no-annotate \
	  --all-extras --group dev pyproject.toml --output-file constraints.txt

# The script of the pages' charts, as npm's registry has it: only for who takes a newer one; then its
# SHA-256 belongs into replayer/report/pages/scripts.py.
plotly: PLOTLY = plotly.js-basic-dist-min@4.1.1
plotly:
	folder=$$(mktemp -d) && npm pack --silent --pack-destination $$folder $(PLOTLY) && \
	tar -xzf $$folder/*.tgz -C replayer/report/page/plotly --strip-components=1 package/LICENSE package/plotly-basic.min.js && \
	rm -r $$folder
	sha256sum replayer/report/page/plotly/plotly-basic.min.js

clean:  ## stop what a killed replayer left, and remove .venv
	@if [ -x $(BIN)/replayer ]; then $(BIN)/replayer clean; fi
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .import_linter_cache dist

help:  ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-12s %s\n", $$1, $$2 }' Makefile

# One that is half made, as without python3-venv, is made again; `.made` says that it is whole.
$(VENV)/.made:
	@$(PYTHON) -c 'import sys; sys.exit("replayer needs Python 3.11 or newer, $(PYTHON) is " + sys.version.split()[0] + "; call make PYTHON=python3.12") if sys.version_info < (3, 11) else None'
	@$(BIN)/python -m pip --version >/dev/null 2>&1 || $(PYTHON) -m venv --clear $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	@touch $@

$(VENV)/.ready: $(VENV)/.made pyproject.toml
	@echo "installing replayer and what it needs into $(VENV): some 400 MB, half a minute"
	$(BIN)/python -m pip install --editable .
	@touch $@

$(VENV)/.ready-dev: $(VENV)/.ready constraints.txt
	@echo "installing what tests need into $(VENV)"
	$(BIN)/python -m pip install --constraint constraints.txt --editable . --group dev
	@touch $@
