# `make demo` and `make test` need Python 3.11 to 3.13, git and make, and install the rest from requirements.lock. To serve,
# without training and tests, `make install LOCK=requirements-serve.lock` is enough; `SPARK=` fetches no Spark, where
# the config says where one is.

# The first that is there; training runs on 3.11 alone, as far as TensorFlow 2.15 goes.
PYTHON ?= $(notdir $(firstword $(foreach each,python3.11 python3.12 python3.13,$(shell command -v $(each))) python3.11))
LOCK ?= requirements.lock
SPARK ?= 4.3
# Compiled while Spark is fetched: with these, the first daemon says at once when jobs will start.
COMPILED := ff greedy aep
BIN := .venv/bin
READY := .venv/ready

.DEFAULT_GOAL := help
.PHONY: help install demo audit test chaos soak fuzz explore mutants lint openapi reference settings docs-output results bench filter airflow lock clean

help:  ## Say what can be made
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*##/\t/' | expand -t 13

install: $(READY)  ## Install Stoker and everything it needs into .venv

$(READY): $(LOCK) setup.cfg setup.py pyproject.toml
	@$(PYTHON) deploy/install.py --python $(PYTHON) --bin $(BIN) --lock $(LOCK) --spark "$(SPARK)" --compiled "$(COMPILED)"
	@touch $(READY)

demo: $(READY)  ## Run three real Spark jobs on VMs that come and go
	$(BIN)/stoker demo

# Installs what serves, without Spark, where nothing is installed; a later `make` of another target installs the rest.
audit:  ## Report what Spark applications cost, and could cost, by event logs (LOGS, REPORT, ARGS)
	@test -n "$(LOGS)" || { echo "make audit LOGS=FOLDER: name a folder of event logs" >&2; exit 2; }
	@test -x $(BIN)/stoker || { $(MAKE) --no-print-directory install LOCK=requirements-serve.lock SPARK= COMPILED= \
	  && rm -f $(READY); }
	$(BIN)/stoker audit $(LOGS) --html $(or $(REPORT),report.html) $(ARGS)

# Tests wait for processes about half of the time, so there are two workers for each core. What Python compiles is
# kept, also where the environment says otherwise: tests start it hundreds of times.
test: export PYTHONDONTWRITEBYTECODE :=
test: $(READY)  ## Pass the tests, on up to four cores
	$(BIN)/stoker spark add 3.5
	$(BIN)/stoker spark add 4.3 --connect
	$(BIN)/python -m pytest -n $$(($$(nproc) < 4 ? $$(nproc) * 2 : 6)) --dist loadfile --no-loadscope-reorder --durations=40

chaos: $(READY)  ## Break everything some hundreds of times, then count what was lost
	$(BIN)/python -m tests.chaos.stopped
	$(BIN)/python -m tests.chaos --faults $(or $(FAULTS),300) --seed $(or $(SEED),1) $(if $(RESUME),--resume)
	HOSTILE_JOBS=$(or $(HOSTILE),100) $(BIN)/python -m pytest tests/daemon/end_to_end/test_hostile_jobs.py -q

soak: $(READY)  ## Kill everything around interactive sessions of real Spark, then count (ROUNDS, SESSIONS, SEED)
	$(BIN)/python -m tests.doors.soak --rounds $(or $(ROUNDS),50) --sessions $(or $(SESSIONS),4) --seed $(or $(SEED),1)

fuzz: $(READY)  ## Ask a daemon for an hour what nobody thought of (MINUTES, SEED, BEGIN)
	$(BIN)/python -m tests.fuzz --minutes $(or $(MINUTES),60) --seed $(or $(SEED),1) --begin $(or $(BEGIN),0)

explore: $(READY)  ## Draw random tests' examples anew for an hour (MINUTES)
	$(BIN)/python -m tests.explore --minutes $(or $(MINUTES),60)

mutants: $(READY)  ## Take every safeguard away, one at a time, and see that a test notices
	$(BIN)/python -m tests.mutation $(if $(RESUME),--resume)

lint: $(READY)  ## Check style, types and import direction
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	PYTHONPATH=client $(BIN)/lint-imports

openapi: $(READY)  ## Store what the HTTP API is, and the client's types of it
	$(BIN)/python -m tests.daemon.openapi
	$(BIN)/python -m tests.docs.reference

reference: $(READY)  ## Store the references of docs/reference: files, commands, HTTP API
	$(BIN)/python -m tests.docs.reference

settings: $(READY)  ## Store which settings each Spark has, read out of its jars
	for version in 3.5 4.3; do $(BIN)/stoker spark add $$version; done
	$(BIN)/python -m tests.framework.spark.settings_of_spark

docs-output: $(READY)  ## Run the commands of pages whose output stands there, and put it there
	$(BIN)/python -m tests.docs.outputs

bench: $(READY)  ## Print the benchmarks, with ratios to their references
	$(BIN)/python -m pytest tests/benchmarks --benchmark-only --override-ini addopts= -q

# Spark's jars have a compiler, so that a Java runtime is enough.
filter: $(READY)  ## Compile the filter that keeps strangers from drivers' UIs
	$(BIN)/stoker spark add 3.5
	$(BIN)/python -m tests.framework.spark.driver.key_filter

# Not among our packages: it needs others of what we need, and hundreds of megabytes. Newer ones are tried by AIRFLOW=.
AIRFLOW ?= apache-airflow==3.3.2 apache-airflow-providers-apache-spark==6.3.4

airflow: $(READY)  ## Run the example for Airflow in a real one, fetched into .venv-airflow
	$(BIN)/stoker spark add 3.5
	$(PYTHON) -m venv .venv-airflow
	.venv-airflow/bin/python -m pip install --disable-pip-version-check --quiet $(AIRFLOW)
	STOKER_AIRFLOW=$(CURDIR)/.venv-airflow $(BIN)/python -m pytest tests/doors/test_airflow.py -n 0 -v

COMPILE := .venv-lock/bin/uv pip compile --quiet --universal --python-version 3.11 --no-header --generate-hashes \
  --no-emit-index-url --no-emit-find-links
RESOLVE := $(COMPILE) --override requirements.overrides
SPARK_LOCKS := framework/spark/install/locks

lock:  ## Resolve setup.cfg, requirements*.in and what Sparks are into the lock files again
	$(PYTHON) -m venv .venv-lock
	.venv-lock/bin/python -m pip install --disable-pip-version-check --quiet uv
	$(RESOLVE) --extra ec2 --extra training --extra test setup.cfg requirements.in -o requirements.lock
	$(RESOLVE) --constraint requirements.lock --extra ec2 setup.cfg requirements-serve.in -o requirements-serve.lock
	set -e; for version in 4.3 3.5; do \
	  $(COMPILE) --no-deps $(SPARK_LOCKS)/$$version.in -o $(SPARK_LOCKS)/$$version.lock; done
	$(COMPILE) $(SPARK_LOCKS)/connect/4.3.in -o $(SPARK_LOCKS)/connect/4.3.lock
	rm -rf .venv-lock

# The reports on real Spark are not among them: their pages name the commands.
results: $(READY)  ## Make docs/results anew from this revision; continues when stopped (ONLY=elastic, QUICK=1)
	$(BIN)/stoker reproduce results --out $(if $(QUICK),build/results --quick,docs/results) $(if $(ONLY),--only $(ONLY))

clean:  ## Remove what was installed and built
	rm -rf .venv .venv-lock .venv-airflow build *.egg-info
