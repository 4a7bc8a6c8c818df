# Slipway. `make` alone lists what there is.
#
#   PYTHON=…   the Python to build with, instead of one found on PATH
#   ARGS=…     given on to `demo` (for example ARGS=--keep-up), `traffic`, `doctor`, `fuzz`, `infrastructure`, `push-images`,
#              `bench-judge` (ARGS=--quick), `provider` (ARGS=3.2), `requirements` (ARGS=--upgrade) and `manifests`
#              (ARGS=--check), or to pytest by `test`, `store-test` and `conformance`
#   RUNS=…     how many runs `chaos` makes (200), and SEED=… the seed of the first: RUNS=1 SEED=17 repeats one
#   REGISTRY=… the registry and path for `push-images`: 111122223333.dkr.ecr.eu-west-1.amazonaws.com/slipway
#   ONLY=…     names of figures for `bench`, lanes of tests for `test` (unit, dags, browser, contract, measures, e2e), or images
#              for `images-test` and `push-images`
#   VERSION=…  the version whose section `changelog` writes; without it, the section is only shown
#   TAG=…      the tag that `release-check` holds against the version of pyproject.toml
#   BASE=…     the base image for `images-test`, instead of a stand-in that is made here: python:3.11-slim-bookworm

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory --no-builtin-rules

PYTHON ?=
ARGS ?=
ONLY ?=
REGISTRY ?=
RUNS ?=
SEED ?=
BASE ?=
TAG ?=
VERSION ?=
VENV := .venv
BIN := $(VENV)/bin
SANDBOX := $(BIN)/python -m slipway_sandbox
COMPILE := $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
	--no-emit-index-url --no-emit-find-links --custom-compile-command "make requirements"
TEST_LANES := unit dags browser contract measures e2e
COMMA := ,

export PYTHONPATH := $(CURDIR):$(CURDIR)/plugins:$(CURDIR)/include
# Without bytecode each process compiles all that it imports: seconds for each of the many that tests and sandbox start.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help setup images images-test compose-test node-test demo up down traffic doctor status test store-test provider manifests conformance cluster-demo cluster-test chaos fleet-faults fuzz bench bench-judge lint \
	format infrastructure push-images ci nightly changelog release-check requirements clean

help: ## Show this list
	@printf '\n  \033[1mSlipway\033[0m: from a model in S3 to live traffic on Triton, or back.\n\n'
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/\1|\2/p' $(MAKEFILE_LIST) | while IFS='|' read -r name text; do \
		printf '  \033[36mmake %-14s\033[0m %s\n' "$$name" "$$text"; done
	@printf '\n  The head of the Makefile names its variables.\n\n'

$(VENV)/slipway.stamp: requirements-dev.txt pyproject.toml plugins/airflow_provider_triton/pyproject.toml
	@command -v python3 >/dev/null || { echo 'No python3 on PATH: install Python 3.11 or 3.12.'; exit 1; }
	@$(or $(PYTHON),python3) -m slipway_sandbox.host.bootstrap $(if $(PYTHON),--python $(PYTHON))

setup: $(VENV)/slipway.stamp ## Everything that is needed, once: environment, pod environments, Triton, database
	@$(SANDBOX) setup

images: $(VENV)/slipway.stamp ## Only the pods' environments (also those that only tests need)
	@$(SANDBOX) setup --for-tests

images-test: setup ## Build the pods' images with Podman or Docker and run each with a pod's rights (or ONLY=onnx,guard)
	@SLIPWAY_BASE_IMAGE="$(BASE)" $(BIN)/python -m pytest tests/containers/test_images.py -q \
		$(if $(ONLY),-k "$(subst $(COMMA), or ,$(ONLY))",-m "not large") $(ARGS)

compose-test: setup ## docker-compose.yaml on a Docker Engine: two releases by events, two workers, one of them killed
	@$(BIN)/python -m pytest tests/containers/test_compose.py -q -s $(ARGS)

node-test: setup ## Pods of a release, and a fleet, on a real kubelet and containerd; one out of memory, one evicted
	@$(BIN)/python -m tests.support.conformance.build etcd kube node
	@$(BIN)/python -m pytest tests/containers/test_node.py tests/containers/test_node_fleet.py -q $(ARGS)

demo: setup ## The whole story: four releases under live traffic, each with its own end
	@$(SANDBOX) demo $(ARGS)

up: setup ## Start the sandbox and Airflow; say where, and how to log in
	@$(SANDBOX) up

down: ## End all of it, also what a killed run has left
	@if [ -x $(BIN)/python ]; then $(SANDBOX) down; else echo 'Nothing was ever set up here.'; fi

traffic: ## Send requests to a sample model of the running sandbox until Ctrl-C (or ARGS="--model digits --rps 50")
	@$(SANDBOX) traffic $(ARGS)

doctor: ## Examine the running sandbox as an installation is examined (or ARGS="--write --plant")
	@$(SANDBOX) doctor $(ARGS)

status: ## What runs, and whether it is healthy
	@if [ -x $(BIN)/python ]; then $(SANDBOX) status; else echo 'Nothing was ever set up here.'; fi

test: images ## The tests: unit, dags, browser, contract, measures, e2e (or ONLY=unit,dags)
	@.ci/test "$(or $(ONLY),$(TEST_LANES))" $(ARGS)

store-test: $(VENV)/slipway.stamp ## Publishing, record, lock, pins, freezes, outbox on real S3 servers: SeaweedFS, and VersityGW (needs Go)
	@$(BIN)/python -m tests.support.store.lane $(ARGS)

provider: setup ## The Triton provider alone, from its wheel, with Airflow 3.2 and 3.3 from PyPI (or ARGS=3.2), on a real tritonserver
	@$(BIN)/python -m tests.support.triton_provider.lane $(ARGS)

manifests: $(VENV)/slipway.stamp ## Render include/manifests from the Helm chart (or ARGS=--check; needs Go, builds Helm once)
	@$(BIN)/python -m tests.support.conformance.build helm
	@$(BIN)/python -m tests.support.chart.manifests $(ARGS)

conformance: $(VENV)/slipway.stamp ## Rollouts, rights and leases on a real control plane (needs Go; builds for minutes, once)
	@$(BIN)/python -m tests.support.conformance.build
	@$(BIN)/python -m pytest tests/conformance $(ARGS)

cluster-demo: setup ## The demo's story on a real cluster of one node, on this machine (Linux, root; Go builds it once; or ARGS=--keep-up)
	@$(BIN)/python -m tests.support.cluster_demo $(ARGS)

cluster-test: setup ## The tests on that cluster: the story, the guard's pod, and a rollout by the hooks alone
	@$(BIN)/python -m pytest tests/cluster -q -s $(ARGS)

chaos: setup ## Releases under live traffic while everything dies, 200 seeded runs (or RUNS=20 SEED=7)
	@$(BIN)/python -m benchmarks.chaos --runs $(or $(RUNS),200) $(if $(SEED),--seed $(SEED))

fleet-faults: setup ## Fleets of eight Tritons under live traffic, a fault in each of 200 seeded releases (or RUNS=20 SEED=7)
	@$(BIN)/python -m benchmarks.fleet --runs $(or $(RUNS),200) $(if $(SEED),--seed $(SEED))

fuzz: $(VENV)/slipway.stamp ## Hostile inputs to everything that is parsed, two minutes (or ARGS="--inputs 100000 --seed 7")
	@$(BIN)/python -m benchmarks.fuzz $(ARGS)

bench: setup ## Measure the figures of docs/figures.md (or ONLY=name,…)
	@$(BIN)/python -m benchmarks $(if $(ONLY),--only $(ONLY)) $(ARGS)

bench-judge: $(VENV)/slipway.stamp ## Measure how often the judge of a canary errs (or ARGS=--quick)
	@$(BIN)/python -m benchmarks.judge $(ARGS) $(BENCH_JUDGE_ARGS)

lint: $(VENV)/slipway.stamp ## Format, lint, types, and the arrows between modules: checked
	@echo '── ruff format'; $(BIN)/ruff format --check .
	@echo '── ruff check'; $(BIN)/ruff check .
	@echo '── mypy'; $(BIN)/mypy
	@echo '── import-linter'; PYTHONPATH="$$PYTHONPATH:include/pod_scripts" $(BIN)/lint-imports

format: $(VENV)/slipway.stamp ## Format and mend what can be mended
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

ci: ## What CI runs: lint, the tests, and the fuzzer with 10,000 inputs
	@.ci/run

nightly: setup ## What takes hours: every case and story that CI leaves out, each property twenty times, an hour of the fuzzer, the judge, chaos, fleets, figures
	@failed=; \
	SLIPWAY_EXHAUSTIVE=1 $(BIN)/python -m pytest tests/unit tests/contract -m "hypothesis or nightly" -n auto --dist loadfile \
		--timeout 3600 || failed+=' cases'; \
	SLIPWAY_EXHAUSTIVE=1 $(BIN)/python -m pytest tests/e2e -m nightly || failed+=' stories'; \
	$(MAKE) fuzz ARGS="--seconds 3600 --seed $$(date -u +%Y%m%d)" || failed+=' fuzz'; \
	$(MAKE) bench-judge ARGS= || failed+=' bench-judge'; \
	$(MAKE) chaos || failed+=' chaos'; \
	$(MAKE) fleet-faults || failed+=' fleet-faults'; \
	$(MAKE) bench ARGS= ONLY= || failed+=' bench'; \
	if [ -n "$$failed" ]; then echo "nightly: failed:$$failed"; exit 1; fi

infrastructure: $(VENV)/slipway.stamp ## CloudFormation templates of what Slipway needs on AWS, into dist/infrastructure (ARGS=--help)
	@$(BIN)/python -m slipway_infrastructure $(ARGS)

push-images: $(VENV)/slipway.stamp ## Build all images, push them to REGISTRY=…, write digests and package lists (or ONLY=guard,verify; ARGS=--help)
	@$(BIN)/python -m slipway_infrastructure.images $(if $(ONLY),--only "$(ONLY)") $(ARGS) $(REGISTRY)

changelog: $(VENV)/slipway.stamp ## Join the fragments in changes/ to a section of CHANGELOG.md (VERSION=0.2.0), or show it
	@$(BIN)/towncrier build $(if $(VERSION),--version "$(VERSION)" --yes,--version Unreleased --draft)

release-check: $(VENV)/slipway.stamp ## Check a release without publishing it: version, tag (TAG=v0.1.0), changelog, packages in dist/
	@$(BIN)/python .ci/release.py check $(if $(TAG),--tag "$(TAG)")

requirements: $(VENV)/slipway.stamp ## Pin requirements*.in, and those of the images, with hashes; ARGS=--upgrade takes the newest
	@$(COMPILE) $(ARGS) requirements.in -o requirements.txt
	@$(COMPILE) $(ARGS) requirements-dev.in -o requirements-dev.txt -c requirements.txt
	@for folder in include/images/*/ include/slipway_infrastructure/images/; do echo "$$folder"; \
		$(COMPILE) $(ARGS) --directory "$$folder" requirements.in -o requirements.txt; done

clean: down ## Remove everything that set-up and runs have made
	@rm -rf .sandbox $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	@find . -name __pycache__ -type d -not -path './.git/*' -prune -exec rm -rf {} +
