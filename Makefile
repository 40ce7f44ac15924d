# `make help` lists the targets. Everything happens in .venv and build/; nothing else on the machine is touched.

# The first of these that there is; the oldest first, as that is what the tests run on.
PYTHON  ?= $(firstword $(foreach version,3.11 3.12 3.13 3.14 3,$(shell command -v python$(version))))
VENV    := .venv
BIN     := $(VENV)/bin
PIP     := $(BIN)/python -m pip --disable-pip-version-check --quiet
JOBS    ?= 2
# Tests wait for nodes, clients and the disk: about a quarter of the time, those of nodes in processes of their own for most of it.
TEST_JOBS ?= 3
NODE_JOBS ?= 4
FUZZ_SECONDS ?= 180
FUZZ_SEED    ?= 1
HOSTILE_CONNECTIONS ?= 1000
HOSTILE_CASES ?= 2000
SIMULATE_SEEDS  ?= 0..9999
MUTANT_SEEDS    ?= 0..399
BROKER_SEEDS    ?= 0..4999
TRANSACTION_SEEDS ?= 0..4999
GROUP_SEEDS     ?= 0..4999
RELOCATIONS     ?= 0..999
CRASH_SEED      ?= 1
KILLS           ?= 200
BACKUP_KILLS    ?= 200
CLUSTER_FAULTS  ?= 1000
TRANSACTIONS    ?= 100000
TRANSACTION_FAULTS ?= 200
KILL_RUNS       ?= 50
ORDER_KILLS     ?= 10000
LEADER_KILLS    ?= 3
STREAMS_KILLS   ?= 50
CLUSTER_CYCLES  ?= 200
COMPARE_ROWS    ?= 0..99
ATTACK_ELEMENTS ?= 100000
ATTACK_ACLS     ?= 0
ACL_ENTRIES     ?= 100000
EXPLORE_STATES  ?= 1300000
EVIL_SEED       ?= 1
ROTATIONS       ?= 1000
EVIL_ROUNDS     ?= 10
COMPILE := $(BIN)/python setup.py -q build_ext --inplace
PYTEST  := $(BIN)/python -m pytest -q -p no:benchmark
ASAN_SO  = $(shell $${CC:-gcc} -print-file-name=libasan.so)
UBSAN_SO = $(shell $${CC:-gcc} -print-file-name=libubsan.so)
SANITIZED := build/sanitized
# Made by tools/compiled_simulator.py; see docs/internals/simulator.md.
SIMULATOR := build/simulator

export KRAFT_JOBS ?= $(shell nproc)

.PHONY: help preflight build docs test test-simulator test-spark peer kafka-suite compare sbom package wheel deb image install-check upgrade-check crash crash-node crash-quorum relocations crash-cluster crash-transactions cycles simulate simulate-brokers simulate-transactions simulate-groups explore attack acl-changes kip-mutants fault-mutants order-kills streams-kills pipeline-kills spark-kills backup-kills fuzz fuzz-wire hostile-tls evil-config rotations console wall sanitize bench bench-micro bench-baseline bench-peer bench-cluster bench-transactions bench-tls bench-share bench-operations bench-failover bench-backup bench-spark bench-commit bench-embedded bench-open-loop bench-gateway demo demo-engine check lock clean

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' Makefile | expand -t 13

# Only for a new environment: one that is there was made with all of it.
preflight:
	@test -x $(BIN)/python || test -n "$(PYTHON)" || \
		{ echo "missing: Python 3.11 or newer: apt-get install python3 python3-venv python3-dev" >&2; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) tools/preflight.py

# The compilers need a few packages of the lock only: they start while the others, over a gigabyte, are still coming.
# Their Python code is compiled where it is used, by the first use.
$(VENV)/.locked: requirements.lock | preflight
	@echo "environment: $(VENV), from requirements.lock"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@mkdir -p build
	@$(BIN)/python tools/lock.py --build-only > build/requirements.lock
	@$(PIP) install --no-compile --require-hashes --no-deps -r build/requirements.lock
	@$(PIP) install --no-compile --require-hashes -r requirements.lock & packages=$$!; \
		$(COMPILE) && compiled=0 || compiled=$$?; wait $$packages && exit $$compiled
	@touch $@

# The extensions are compiled in place, only those whose sources changed; the installed package points here. The Python
# code is compiled too, as an installation does: a first start would have to.
build: $(VENV)/.locked ## the package and the `kraft` command into .venv; only what changed is compiled
	@$(COMPILE)
	@test -x $(BIN)/kraft -a $(VENV)/.installed -nt pyproject.toml -a $(VENV)/.installed -nt kraft/_version.py || \
		{ KRAFT_BUILT=1 $(PIP) install --no-deps --no-build-isolation --editable . && touch $(VENV)/.installed; }
	@$(BIN)/python -m compileall -q kraft
	@$(BIN)/kraft --version

$(VENV)/.docs: $(VENV)/.locked requirements-docs.lock
	@$(PIP) install --require-hashes -r requirements.lock -r requirements-docs.lock
	@touch $@

# Every warning is an error: a broken link, a heading that does not exist, a page that the navigation lacks.
docs: build $(VENV)/.docs ## the code blocks of the documents, run; the documentation site, from README and docs, into build/site
	@$(PYTEST) -n $(NODE_JOBS) -m pages tests/documents
	@$(BIN)/python -m sphinx --fail-on-warning --keep-going -q -b html -c docs/site -d build/site-cache . build/site
	@echo "site: build/site/index.html"

# Clients of others keep threads and descriptors of their own, which tests that count theirs must not share a process with.
test: build ## all tests but those of the simulator, on two cores
	@$(PYTEST) -n $(TEST_JOBS) -m "not peer and not long and not house and not pages" --ignore=tests/integration --ignore=tests/spark \
		--ignore=tests/testing --ignore=tests/cli/test_simulate.py tests
	@$(PYTEST) -n $(NODE_JOBS) -m "not peer and not long" tests/integration
	@$(PYTEST) -n $(JOBS) --dist loadgroup -m "not long" tests/spark

test-simulator: build ## the tests of the simulator: short runs, and some of the known bugs found again
	@$(PYTEST) -n $(JOBS) -m "not long" tests/testing tests/cli/test_simulate.py

# One session for all of them; without Spark or a Java for it they are skipped. The long ones start clusters of their own,
# run the examples where no Java is installed, and need packages that nothing else does.
test-spark: build ## the tests of the Spark data source, the long ones too
	@$(PIP) install --require-hashes -r requirements.lock -r requirements-spark.lock
	@$(PYTEST) tests/spark

$(VENV)/.release: $(VENV)/.locked requirements-release.lock
	@$(PIP) install --require-hashes -r requirements.lock -r requirements-release.lock
	@touch $@

sbom: build $(VENV)/.release ## the bill of materials of a node, in CycloneDX's format; into dist
	@$(BIN)/python -m tools.sbom

# Another Python, with its headers: .venv/bin/python -m tools.wheel --python /usr/bin/python3.12. Twice, to compare the bytes: --twice
wheel: build $(VENV)/.release ## the wheel of this Python, compiled from a copy of the sources, repaired and checked by auditwheel; into dist
	@$(BIN)/python -m tools.wheel

deb: wheel ## the Debian package of a node, from that wheel and the locked packages, checked by lintian; into dist
	@$(BIN)/python -m tools.deb

# Needs root and buildah, and says so where they are missing.
image: deb ## the container image, from that package and Debian's, without a daemon; into dist
	@$(BIN)/python -m tools.image

# The package and the image are tried when dist has them. Trees need root and debootstrap. One bound is seconds: a machine that does nothing else.
install-check: wheel ## installations of what dist has, in a new environment and new Debian trees, each used from there; two minutes
	@$(PYTEST) -n 0 -m long tests/package
	@$(BIN)/python -m tests.package.install_check

# From another one, back and forth twice: .venv/bin/python -m tests.upgrade --previous REVISION --rounds 2
upgrade-check: build ## three nodes upgraded from the previous release and downgraded again, one at a time under load; some minutes
	@$(BIN)/python -m tests.upgrade

package: build ## a real installation of the sources into an empty environment, used from elsewhere; five minutes
	@$(PYTEST) -m long tests/test_installation.py

# The long form of the mixed quorum: make peer LEADER_KILLS=20
peer: build ## the tests against Apache Kafka's own classes, and with clients in Go, JavaScript and Java (needs those)
	@$(PYTEST) -m peer --leader-kills $(LEADER_KILLS) tests/peer tests/clients

compare: build ## thousands of generated requests to our node and to Kafka's, every answer compared (needs Java)
	@$(BIN)/python -m tests.compare --rows $(COMPARE_ROWS)
	@$(BIN)/python -m tests.compare --access

# A machine that does nothing else: the bounds are milliseconds. With an authorizer: make attack ATTACK_ACLS=1000
attack: build ## the largest requests of every API, refused records and slow readers, and what others wait meanwhile; about ten minutes
	@$(BIN)/python -m tests.attack --elements $(ATTACK_ELEMENTS) --acls $(ATTACK_ACLS)

acl-changes: build ## ten thousand changes of ACLs a minute beside a producer and a consumer, a hundred thousand entries standing; two minutes
	@$(BIN)/python -m tests.attack.acl_changes --entries $(ACL_ENTRIES)

# Every failing call, flip and length, and each third crash point; then a log that is being compacted.
crash: build ## the crash kit: crash states, failing calls, damaged bytes; about twenty minutes on one core
	@$(BIN)/python -m tests.crash
	@$(BIN)/python -m tests.crash states --subject compacted --states 12000 --bound 10000
	@$(BIN)/python -m tests.crash failing --subject compacted --seeds 1
	@$(BIN)/python -m tests.crash damage --subject compacted --seeds 1

# A longer one: make crash-node KILLS=1000
crash-node: build ## kill -9 of a node at random under load, compared with what was acknowledged; some minutes
	@$(PYTEST) -n 0 -m long --kills $(KILLS) tests/integration/test_kill.py

# The first part alone, one run traced: kraft simulate --relocations --seed 7 --trace
relocations: build ## three voters restarted at new addresses: a thousand times simulated, twenty with processes; half an hour
	@mkdir -p build
	@$(BIN)/kraft simulate --relocations --seeds $(RELOCATIONS) --jobs $(JOBS) --output build/relocations.json
	@$(PYTEST) -n 0 -m long tests/integration/test_quorum_relocation.py

# One of them alone: python -m tests.crash_quorum chaos --events 100 --seed 7
crash-quorum: build ## controllers in processes of their own: killed, paused, wiped, changed under load; about an hour
	@$(BIN)/python -m tests.crash_quorum --seed $(CRASH_SEED)

# A shorter one: make crash-cluster CLUSTER_FAULTS=50 CRASH_SEED=7
crash-cluster: build ## three nodes through a thousand faults under real clients, every record and read judged; an hour or two
	@$(BIN)/python -m tests.crash_cluster --seed $(CRASH_SEED) --faults $(CLUSTER_FAULTS)

# A shorter one: make crash-transactions TRANSACTIONS=3000 TRANSACTION_FAULTS=20 CRASH_SEED=7
# The control, one node of Apache Kafka: python -m tests.crash_transactions --kafka
crash-transactions: build ## transactional clients, those of Java and Go too where they can be built, on three nodes through two hundred faults, judged for the anomalies of Adya and Elle; an hour or two
	@$(BIN)/python -m tests.crash_transactions --seed $(CRASH_SEED) --faults $(TRANSACTION_FAULTS) --transactions $(TRANSACTIONS)

# Processes, ports, descriptors and files are counted before and after.
cycles: build ## three brokers and three controllers started and stopped two hundred times, nothing left behind; ten minutes
	@$(PYTEST) -n 0 -m long --cycles $(CLUSTER_CYCLES) tests/local/test_cycles.py

# A shorter look: make simulate SIMULATE_SEEDS=0..199. A nightly one goes on from where the last ended.
simulate: build ## ten thousand simulated runs of a quorum with faults, then every known bug found again; hours
	@mkdir -p build
	@$(BIN)/python -m tools.compiled_simulator
	@PYTHONPATH=$(SIMULATOR) $(BIN)/kraft simulate --seeds $(SIMULATE_SEEDS) --jobs $(JOBS) --output build/simulate.json
	@$(BIN)/kraft simulate --mutants --seeds $(MUTANT_SEEDS) --jobs $(JOBS) --output build/mutants.json

# make simulate-brokers BROKER_SEEDS=0..199
simulate-brokers: build ## five thousand simulated runs with controllers, brokers and clients, then every known bug of those
	@mkdir -p build
	@$(BIN)/python -m tools.compiled_simulator
	@PYTHONPATH=$(SIMULATOR) $(BIN)/kraft simulate --brokers --seeds $(BROKER_SEEDS) --jobs $(JOBS) --output build/simulate-brokers.json
	@$(BIN)/kraft simulate --brokers --mutants --seeds $(MUTANT_SEEDS) --jobs $(JOBS) --output build/mutants-brokers.json

# make simulate-transactions TRANSACTION_SEEDS=0..199
simulate-transactions: build ## five thousand simulated runs with transactional clients, a quarter of them hours long, then every known bug of those
	@mkdir -p build
	@$(BIN)/python -m tools.compiled_simulator
	@PYTHONPATH=$(SIMULATOR) $(BIN)/kraft simulate --transactions --seeds $(TRANSACTION_SEEDS) --jobs $(JOBS) --output build/simulate-transactions.json
	@$(BIN)/kraft simulate --transactions --mutants --seeds $(MUTANT_SEEDS) --jobs $(JOBS) --output build/mutants-transactions.json

# make simulate-groups GROUP_SEEDS=0..199
simulate-groups: build ## five thousand simulated runs with group coordinators and consumers, then every known bug of those
	@mkdir -p build
	@$(BIN)/python -m tools.compiled_simulator
	@PYTHONPATH=$(SIMULATOR) $(BIN)/kraft simulate --groups --seeds $(GROUP_SEEDS) --jobs $(JOBS) --output build/simulate-groups.json
	@$(BIN)/kraft simulate --groups --mutants --seeds $(MUTANT_SEEDS) --jobs $(JOBS) --output build/mutants-groups.json

# Then four of the known bugs, each with the shortest trace that shows it.
explore: build ## every interleaving of a small quorum, within bounds; a quarter of an hour and a gigabyte
	@mkdir -p build
	@$(BIN)/kraft simulate --exhaustive --states $(EXPLORE_STATES) --output build/explore.json
	@for mutant in votes-twice restarted-leader-votes-again leader-counts-unflushed; do \
		$(BIN)/kraft simulate --exhaustive --model elections --mutant $$mutant 2>/dev/null || exit 1; done
	@$(BIN)/kraft simulate --exhaustive --model joining --mutant change-before-own-epoch 2>/dev/null

# One of them: python -m tests.mutation kips --only "is the same"
kip-mutants: build ## rules of the specifications taken out of the code one by one, each noticed by its own tests; five minutes
	@$(BIN)/python -m tests.mutation kips

# Those of compiled modules are compiled in a copy of the sources.
fault-mutants: build ## causes of faults put back into the code one by one, each noticed by its own tests; half an hour
	@$(BIN)/python -m tests.mutation faults

# A shorter one: make order-kills ORDER_KILLS=500 CRASH_SEED=7
order-kills: build ## the example of PostgreSQL and a topic: services, database and brokers killed ten thousand times (needs PostgreSQL); half an hour
	@$(BIN)/python -m tests.examples.order_kills --kills $(ORDER_KILLS) --seed $(CRASH_SEED)

# A shorter one: make streams-kills STREAMS_KILLS=10 CRASH_SEED=7
streams-kills: build ## a Kafka Streams application with exactly_once_v2 killed fifty times, its output compared (needs Java, Maven); ten minutes
	@$(BIN)/python -m tests.clients.streams_kills --kills $(STREAMS_KILLS) --seed $(CRASH_SEED)

# One of them: python -m tests.wall --product faust
wall: build ## the products that people put beside Kafka, one test each, as a table (needs Java, Maven, Go, Rust, Node.js, PostgreSQL); half an hour
	@$(BIN)/python -m tests.wall --page

# Every run has a seed, and odd seeds use transactions: python -m tests.pipeline ingest --runs 1 --seed 7 --transactions
pipeline-kills: build ## exports and ingests killed at random moments, half of them with transactions; every record is there once; a quarter of an hour
	@$(BIN)/python -m tests.pipeline export --runs $(KILL_RUNS)
	@$(BIN)/python -m tests.pipeline ingest --runs $(KILL_RUNS)

# Ten of the incidents: python -m tests.console.campaign --seed 7 --draw 10
console: build ## the console: 40 incidents injected into clusters of processes, each with its cause; pages in a browser, with axe; some minutes
	@$(BIN)/python -m tests.console.campaign
	@$(PYTEST) -n 0 -m long tests/console

# One of them again: python -m tests.pipeline spark --runs 1 --seed 7
spark-kills: build ## the same in Spark, half of the runs with transactions: workers, executors, drivers and brokers are killed; an hour
	@$(BIN)/python -m tests.pipeline spark --runs $(KILL_RUNS)

# A shorter one: make backup-kills BACKUP_KILLS=20 CRASH_SEED=7
backup-kills: build ## backups and restores of a node under load, killed two hundred times; never a restore that differs; ten minutes
	@$(BIN)/python -m tests.backups --kills $(BACKUP_KILLS) --seed $(CRASH_SEED)

fuzz: build ## parsers fed with seeded random damage, bounded
	@$(BIN)/python -m tests.fuzz --seconds $(FUZZ_SECONDS) --seed $(FUZZ_SEED)

# The long form: make hostile-tls HOSTILE_CONNECTIONS=10000 HOSTILE_CASES=1000000
hostile-tls: build ## half-open and failing TLS handshakes beside other clients, then broken TLS records and SASL frames
	@$(BIN)/python -m tests.hostile_tls --connections $(HOSTILE_CONNECTIONS) --cases $(HOSTILE_CASES) --seed $(FUZZ_SEED)

fuzz-wire: build ## a node fed with random and mutated frames of every API and version, bounded
	@$(BIN)/python -m tests.fuzz_wire --seconds $(FUZZ_SECONDS) --seed $(FUZZ_SEED)

# A shorter one: make rotations ROTATIONS=50
rotations: build ## certificates, passwords and keys of tokens rotated a thousand times each under load; half an hour
	@$(BIN)/python -m tests.rotations --rotations $(ROTATIONS)

# One seed again, or a shorter one: make evil-config EVIL_SEED=7 EVIL_ROUNDS=2
evil-config: build ## every setting of every resource with hostile values, on one live node and on three; two minutes
	@$(BIN)/python -m tests.evil_config --seed $(EVIL_SEED) --rounds $(EVIL_ROUNDS)

# The C parts and the compiled modules with AddressSanitizer and UndefinedBehaviorSanitizer, in a tree of their own.
sanitize: build ## tests/native under ASan and UBSan
	@mkdir -p $(SANITIZED)
	@rm -rf $(SANITIZED)/kraft_native $(SANITIZED)/tests
	@cp -Rpu README.md LICENSE setup.py pyproject.toml docs kraft kraft_native tests tools $(SANITIZED)/
	@find $(SANITIZED)/kraft_native -name '*.so' -delete
	@cd $(SANITIZED) && KRAFT_SANITIZE=1 $(CURDIR)/$(BIN)/python setup.py -q build_ext --inplace
	@cd $(SANITIZED) && LD_PRELOAD="$(ASAN_SO) $(UBSAN_SO)" ASAN_OPTIONS=detect_leaks=0:abort_on_error=1:allocator_may_return_null=1 \
		UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1 KRAFT_SHARED="$${KRAFT_SHARED:-$(CURDIR)/../shared}" \
		PYTHONMALLOC=malloc $(CURDIR)/$(BIN)/python -m pytest -q -p no:benchmark -m "not peer and not long" tests/native

bench: bench-micro ## the figures: micro benchmarks beside their saved baseline, and the engine's table
	@$(BIN)/python -m bench.baseline
	@$(BIN)/python -m bench.engine

bench-micro: build ## the micro benchmarks alone
	@mkdir -p bench/out
	@$(BIN)/python -m pytest -q bench/micro --benchmark-disable-gc --benchmark-columns=median,iqr,rounds \
		--benchmark-json=bench/out/micro.json

# On an idle machine. The file that it writes belongs into the repository.
bench-baseline: bench-micro ## run the micro benchmarks and save them as the baseline of this kind of machine
	@$(BIN)/python -m bench.baseline --save

# One class: make kafka-suite SUITE="--class org.apache.kafka.tools.TopicCommandTest"
kafka-suite: build ## Kafka's own integration tests on nodes of this checkout, beside what Kafka passes (needs Java, Maven); hours
	@$(BIN)/python -m tests.kafka_suite $(SUITE)

bench-peer: build ## our node beside Apache Kafka 4.3.1, in one run (needs Java and Maven)
	@$(BIN)/python -m bench.macro.peer

bench-cluster: build ## three nodes of ours beside three of Kafka's, replicated, in one run (needs Java and Maven)
	@$(BIN)/python -m bench.macro.cluster

bench-transactions: build ## transactions on one node and on three, of ours and of Kafka in one run (needs Java and Maven)
	@$(BIN)/python -m bench.macro.transactions --nodes 1
	@$(BIN)/python -m bench.macro.transactions --nodes 3

bench-tls: build ## TLS of our node beside TLS of Kafka and beside Kafka without it, in one run (needs Java and Maven)
	@$(BIN)/python -m bench.macro.tls

bench-share: build ## share groups on our node and on Kafka, in one run (needs Java and Maven)
	@$(BIN)/python -m bench.macro.share

bench-operations: build ## restarts and moves under load, 10,000 partitions on three nodes; ours and Kafka's in one run
	@$(BIN)/python -m bench.macro.operations

bench-failover: build ## the active controller and another of three nodes killed fifty times each and all restarted in turn under producers, then Kafka's killed five times each; twenty minutes
	@$(BIN)/python -m bench.macro.failover

# Another size: python -m bench.macro.backup --gigabytes 2
bench-backup: build ## a backup of 10 GB beside clients: their throughput with it and without, the copy rate beside the disk's
	@$(BIN)/python -m bench.macro.backup

# 1 KiB: python -m bench.spark --value-bytes 1024 --turns 7
bench-spark: build ## reads in Spark: rows per second, and processor time per row; beside Spark's own Kafka connector; then writes in transactions beside those without
	@$(BIN)/python -m bench.spark
	@$(BIN)/python -m bench.spark.writes

bench-commit: build ## commits of 3 and 5 controllers beside C, etcd, Kafka and the disk; leaders killed and stopped
	@$(BIN)/python -m bench.commit.commit

bench-embedded: build ## the engine beside SQLite, LMDB, RocksDB and queue libraries, in one run
	@$(PIP) install --require-hashes -r requirements.lock -r requirements-embedded.lock
	@$(BIN)/python -m bench.embedded

# Another rate: python -m bench.macro.open_loop --rate 2000 --turns 5
bench-open-loop: build ## the generator of kraft bench beside librdkafka in one run, with a node that stalls and without; seven minutes
	@$(BIN)/python -m bench.macro.open_loop

bench-gateway: build ## 5,000 subscribers of the HTTP gateway with broken connections, every record compared; two minutes
	@$(BIN)/python -m bench.macro.gateway

demo: build ## a node, real data through it with a real client, every byte compared, killed and read again, figures
	@$(BIN)/python -m tools.demo

demo-engine: build ## the engine alone: real data with each codec, read back and compared, and through a crash
	@$(BIN)/python -m tools.demo_engine

check: build ## ruff, mypy, cython-lint, generated code, house rules, layers, type stubs
	@PATH="$(CURDIR)/$(BIN):$$PATH"; failed=0; \
		for step in "ruff check --quiet ." "mypy --no-error-summary" "cython-lint kraft_native" \
				"python -m tools.protocol --check" "python -m tools.log_fields --check" "python -m tools.tidy" \
				"python -m tools.language" "python -m tools.layers" "python -m tools.stubs" \
				"python -m pytest -q -p no:benchmark -n $(JOBS) -m house tests/test_imports.py tests/test_tidy.py \
					tests/test_layers.py tests/test_stubs.py tests/test_module_cache.py tests/test_package.py"; do \
			$$step || { failed=1; echo "failed: $$step"; }; \
		done; exit $$failed

lock: ## rewrite all lock files: the newest versions that pyproject.toml allows, and the digests of their files
	@$(PYTHON) tools/lock.py

clean: ## remove everything that was made
	@rm -rf $(VENV) build dist *.egg-info bench/out .pytest_cache .mypy_cache .ruff_cache .hypothesis .benchmarks
	@find kraft_native -path kraft_native/_c -prune -o \( -name '*.so' -o -name '*.c' -o -name '*.pyi' -o -name '*.html' \) -exec rm -f {} +
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
