# Front door: each target is a short way to say what cmake, ctest or a script in scripts/ does.
JOBS ?= $(shell nproc)
TEST_JOBS ?= $(shell expr 2 '*' $(JOBS)) # process tests wait more than they compute

.DEFAULT_GOAL := help
.PHONY: help setup build dashboard python wheel tests benchmarks check test nightly build-times demo demo-cluster doctor docs tour install deb \
        test-asan test-tsan clang fuzz chaos slurm soak planted-errors search-membership lint format \
        bench-fidelity bench-scale bench-policies bench-papers bench-solver bench-ablation \
        bench-bound bench-large bench-overhead bench-reduce bench-nodes bench-elastic bench-encryption bench-api bench-agents bench-standby bench-plan bench-history bench-membership clean
# Targets run one after another (the tools inside use JOBS cores), so output stays in order.
.NOTPARALLEL:

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+[a-z -]*:.*## / {printf "  make %-16s %s\n", $$1, $$2}' Makefile

setup: ## install the Debian packages that are missing, for all targets
	@scripts/setup

BUILD = cmake --build --preset release -j $(JOBS) --target

build: ## build the programs, optimised; they land in build/bin
	@scripts/configure
	@$(BUILD) programs

python: ## build the Python package for use from the build tree: PYTHONPATH=build/python
	@scripts/configure
	@$(BUILD) programs

wheel: python ## the Python wheel in out/wheel
	@scripts/make-wheel

tests: ## build the programs and all tests
	@scripts/configure tests
	@$(BUILD) tests

benchmarks: ## build the programs and all benchmarks
	@scripts/configure benchmarks
	@$(BUILD) benchmarks

dashboard: ## build the dashboard (web/) into rubatod and rubato; installs Node and npm
	@scripts/setup web
	@scripts/configure
	@rm -f build/release/dashboard_files.cpp build/release/report_bundle.cpp
	@$(BUILD) rubatod rubato

# For the loop of editing, building and testing. What runs and how long it takes: docs/testing.md.
check: ## build, then unit, property and scenario tests: under a minute
	@scripts/configure tests
	@$(BUILD) unit_tests property_tests scenario_tests
	@ctest --preset release -j $(JOBS) -L '^(unit|property|scenario)$$'

# ctest runs last: its summary is the last thing printed.
test: tests lint ## build, lint and run all tests
	@ctest --preset release -j $(TEST_JOBS)

REPEAT ?= 100
nightly: tests benchmarks ## every process test REPEAT (100) times beside a load on all cores
	@scripts/nightly --repeat $(REPEAT)

lint: ## check the format; clang-tidy on changed files (RUBATO_TIDY=all: all)
	@scripts/configure tests
	@scripts/check-format
	@scripts/tidy-changed

format: ## rewrite the sources in the project's format
	@scripts/setup build test
	@scripts/check-format --fix

build-times: ## where the time of the last full build went
	@scripts/build-times

test-asan: ## tests under address and undefined-behaviour sanitizers, the live system's included
test-tsan: ## tests under the thread sanitizer, without long ones
build/%/build.ninja:
	@scripts/setup build test clang
	@cmake --preset $* -DRUBATO_BENCHMARKS=$(if $(filter clang,$*),ON,OFF)

SANITIZED = unit_tests property_tests scenario_tests control_tests demo_tests api_tests agent_tests executor_tests
test-asan: SANITIZED += api_fuzz live_tests kill_tests
test-tsan: SANITIZED += elastic_tests
test-asan test-tsan: test-%: build/%/build.ninja
	@cmake --build --preset $* -j $(JOBS) --target $(SANITIZED)
	@ctest --preset $* -j $(JOBS)

clang: build/clang/build.ninja ## build everything with clang (lock annotations checked)
	@cmake --build --preset clang -j $(JOBS)

FUZZ_SECONDS ?= 30
HOSTILE ?= 10000
fuzz: build/fuzz/build.ninja tests ## hostile bytes into wire protocol, job documents and job folders for FUZZ_SECONDS (30) each; a hostile job in HOSTILE (10000) variants
	@cmake --build --preset fuzz -j $(JOBS) --target wire_fuzz job_fuzz job_files_fuzz
	@mkdir -p build/fuzz/corpus/wire build/fuzz/corpus/job build/fuzz/corpus/job_files
	@build/fuzz/bin/wire_fuzz -max_total_time=$(FUZZ_SECONDS) -max_len=4096 -print_final_stats=1 \
	  -artifact_prefix=build/fuzz/ build/fuzz/corpus/wire tests/fuzz/wire_seeds
	@build/fuzz/bin/job_fuzz -max_total_time=$(FUZZ_SECONDS) -max_len=4096 -print_final_stats=1 \
	  -artifact_prefix=build/fuzz/ build/fuzz/corpus/job tests/fuzz/job_seeds
	@build/fuzz/bin/job_files_fuzz -max_total_time=$(FUZZ_SECONDS) -max_len=65536 -print_final_stats=1 \
	  -artifact_prefix=build/fuzz/ build/fuzz/corpus/job_files tests/fuzz/job_files_seeds
	@RUBATO_HOSTILE=$(HOSTILE) RUBATO_TURN_MS=100 build/bin/executor_tests --gtest_filter=HostileCampaign.FilesHurtNobody

SEEDS ?= 400
SCHEDULES ?= 1000000
CLUSTERS ?= 200
STANDBYS ?= 200
chaos: tests ## random schedules of resizes, kills, stops against real training jobs (SEEDS=400), clusters (CLUSTERS), daemons that stand by (STANDBYS) and simulated jobs (SCHEDULES)
	@build/bin/chaos --seeds $(SEEDS) --programs mlp,cnn,lm,toy,device
	@build/bin/chaos --nodes 3 --seeds $(SEEDS) --programs toy,device
	@build/bin/chaos --adaptive --seeds $(SEEDS) --programs mlp,cnn,lm,toy
	@build/bin/chaos --adaptive --nodes 3 --seeds $(SEEDS) --programs toy
	@PYTHONPATH=build/python RUBATO_PYTHON=/usr/bin/python3 build/bin/chaos --seeds $(SEEDS) \
	  --programs examples/python/cnn.py,examples/python/gpt.py,examples/python/resnet.py
	@build/bin/cluster_chaos --seeds $(CLUSTERS) || [ $$? = 77 ] # without network namespaces
	@RUBATO_HISTORIES=$(STANDBYS) build/bin/standby_tests --gtest_filter='Histories*'
	@build/bin/standby_chaos --seeds $(STANDBYS) || [ $$? = 77 ] # without etcd
	@build/bin/membership_sim --mixed --count $(SCHEDULES)

MEMBERSHIP = membership_sim rubato_elastic
planted-errors: ## errors planted in a copy of the membership protocol: the simulator finds each
	@scripts/configure tests
	@$(BUILD) $(MEMBERSHIP)
	@scripts/planted-errors

search-membership: ## one change of a simulated job with one fault at every point, completely
	@scripts/configure tests
	@$(BUILD) $(MEMBERSHIP)
	@build/bin/membership_sim --search --workers 2
	@build/bin/membership_sim --search --workers 3
	@build/bin/membership_sim --search --nodes 2 --workers 2
	@build/bin/membership_sim --search --nodes 2 --workers 3

LIMITS ?= 5
slurm: tests ## a training job that needs LIMITS (5) times the time limit of its pilots, on a real Slurm
	@RUBATO_SLURM_LIMITS=$(LIMITS) ctest --preset release -R '^cli/slurm_test$$' --verbose

VIEWS ?= 2000
soak: tests ## one job through VIEWS (2000) view changes: memory and descriptors flat, same bits
	@build/bin/soak --views $(VIEWS)

doctor: ## check what this machine offers for training, with remedies
	@scripts/configure
	@$(BUILD) rubato
	@build/bin/rubato doctor

demo: build ## run the demonstration
	@scripts/demo

demo-cluster: build ## the second act: three hosts, of which one is unplugged
	@$(BUILD) rubato_cluster_demo
	@scripts/demo-cluster

docs: build ## regenerate the generated documentation
	@scripts/generate-docs

tour: build ## run the commands of the README's tour and write their output there
	@scripts/tour

PREFIX ?= /usr/local
install: build ## install below PREFIX (/usr/local); DESTDIR is honoured
	@cmake --install build/release --prefix $(PREFIX) --strip

deb: build ## Debian packages in out/deb
	@scripts/make-deb

bench-fidelity: benchmarks ## benchmark: how close simulated results come to the reference
	@scripts/bench-fidelity

bench-scale: benchmarks ## benchmark: how the scheduler scales
	@scripts/bench-scale

bench-large: benchmarks ## benchmark: a day with 20,000 jobs on 10,000 devices under rubato
	@scripts/bench-large

bench-solver: benchmarks ## benchmark: the exact solver beside CBC and GLPK
	@scripts/bench-solver

bench-policies: benchmarks ## benchmark: every policy on every recorded workload set
	@scripts/bench-policies

bench-ablation: benchmarks ## benchmark: what each idea of rubato contributes
	@scripts/bench-ablation

bench-bound: benchmarks ## benchmark: how far from the best possible mean completion time
	@scripts/bench-bound

bench-papers: benchmarks ## benchmark: the papers' claims, written to docs/results.md
	@scripts/bench-papers

bench-overhead: benchmarks ## benchmark: what the training runtime costs beside plain LibTorch
	@scripts/bench-overhead

bench-reduce: benchmarks ## benchmark: reduction speed beside Gloo and Open MPI
	@scripts/bench-reduce

bench-nodes: benchmarks ## benchmark: bytes and time of an exchange between nodes, beside Gloo
	@scripts/bench-nodes

bench-python: python ## benchmark: what Rubato costs a plain PyTorch loop
	@scripts/bench-python

bench-encryption: benchmarks ## benchmark: what encryption between machines costs
	@scripts/bench-encryption

bench-elastic: benchmarks ## benchmark: what a change of workers costs, beside torchrun elastic
	@scripts/bench-elastic

bench-api: benchmarks ## benchmark: lists and durable submissions over HTTP with 10,000 queued jobs
	@scripts/bench-api

bench-standby: tests ## benchmark: how long nobody leads when the leader is lost and another daemon stands by
	@scripts/bench-standby

bench-agents: benchmarks ## benchmark: 1,000 nodes whose agents call one daemon
	@scripts/bench-agents

bench-plan: benchmarks ## benchmark: how long 'rubato plan' takes with up to 1,000 queued jobs
	@scripts/bench-plan

bench-history: benchmarks ## benchmark: a daemon with a million finished jobs
	@scripts/bench-history

bench-membership: ## benchmark: simulated fault schedules per second and core
	@scripts/configure tests
	@$(BUILD) $(MEMBERSHIP)
	@scripts/bench-membership

clean: ## delete everything that was built
	@rm -rf build compile_commands.json
