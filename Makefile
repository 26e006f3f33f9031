# Each target sets up what it needs. `make test` and `make run` are the two to begin with.

.PHONY: run aws test bench micro instructions sim services-sim designs chaos attacks kills fuzz fuzz-check lint fmt deny image image-lab image-check rules-check check-promises

# Everything in one process: catalogue, views, three regions, their topics, the sidecar; it tells the story and stays up.
run:
	cargo run --locked -p nearside-lab -- dev

# The whole service as it runs on AWS, on an emulator: catalogue, views, three regions and the sidecar, a process each; it
# tells the story and stays up. `make aws EXIT=1` ends after the story.
aws:
	EXIT=$(EXIT) deploy/aws-local.sh

# Everything, against the real protocols: the AWS emulator (Python 3.13) and the drop-in clients (Python, Node, curl).
test:
	@# Mostly a matter of waiting for other languages' registries.
	set -e; { tests/emulator/setup.sh && tests/clients/setup.sh && tests/payloads/setup.sh && examples/publishers/setup.sh; } & made=$$!; \
	    cargo test --locked --workspace --no-run; wait $$made
	@# One more at a time than there are cores: they wait more than they work.
	RUST_TEST_THREADS=$$(($$(nproc) + 1)) cargo test --locked --workspace -- --skip faults:: --skip propagation:: \
	    --skip fifty_setup_errors --skip processes_carry_each_change
	@# What is said on the wire, once more with every request read by hyper (listen.fast).
	NEARSIDE__LISTEN__FAST=false RUST_TEST_THREADS=$$(($$(nproc) + 1)) cargo test --locked --test it -- \
	    wire:: rfc9111:: admission:: routed:: readers:: drop_in:: own_writes:: failing:: stampede::
	@# What is measured, or must be seen within so many seconds, has the machine to itself, and shows its figures.
	cargo test --locked --test it -- faults:: propagation:: fifty_setup_errors processes_carry_each_change --nocapture --test-threads 1
	@# A fifth of what `make sim` runs, and a seventh of `make services-sim`: these take 20 minutes more.
	$(MAKE) --no-print-directory sim SEEDS=2000
	$(MAKE) --no-print-directory services-sim SERVICES_SEEDS=150 GUARD_SEEDS=40
	@# A few of the real kills, so that they keep working.
	cargo test --locked --test kills -- --kills 12 --writes 400

# The freshness protocol under every fault, in simulated time (tests/sim), then each rule switched off. `make sim
# SEEDS=1000000` goes on where it stopped; `make sim SEED=7` tells the story of one.
SEEDS ?= 10000
# Not incremental: that would cut the crate into 256 parts, each optimised alone. Line tables cost a minute to write.
SIM := CARGO_INCREMENTAL=0 CARGO_PROFILE_TEST_OPT_LEVEL=3 CARGO_PROFILE_TEST_DEBUG=0 cargo test --locked --features switches --test sim --
sim:
ifeq ($(origin SEED),command line)
	$(SIM) --seed $(SEED)
else
	$(SIM) --seeds $(SEEDS) --resume target/sim-$(SEEDS)
endif

# Catalogue, views and regions under every fault, in simulated time (tests/services_sim), then each guard switched off.
# `make services-sim SEED=7` tells the story of one.
SERVICES_SEEDS ?= 1000
GUARD_SEEDS ?= 60
SERVICES_SIM := $(subst --test sim,--test services_sim,$(SIM))
services-sim:
ifeq ($(origin SEED),command line)
	$(SERVICES_SIM) --seed $(SEED)
else
	$(SERVICES_SIM) --seeds $(SERVICES_SEEDS) --guards $(GUARD_SEEDS)
endif

# Nearside beside nginx, Varnish, HAProxy, Envoy and a bare epoll loop, in turn, on this machine: installs the peers (Debian,
# as root), then measures for about half an hour. `nearside-lab bench --only hit-1k` is a minute.
bench:
	benches/peers.sh
	tests/payloads/setup.sh >/dev/null
	cargo build --release --locked -p nearside -p nearside-lab --no-default-features --bins
	target/release/nearside-lab bench --json target/bench.json --page target/bench.html

# The parts in-process: times (compare within one run only), then instructions.
micro:
	cargo bench --locked --bench hit --bench access --bench transport --bench race --bench announcements --bench projection
	$(MAKE) --no-print-directory instructions

# Instructions of the parts, counted by valgrind, beside those of benches/baseline.txt: half a minute once the tests are
# built. A difference fails nothing; `benches/compare.sh --write` makes the present counts the baseline.
instructions:
	benches/compare.sh

# Three designs under the same 300 seeds of the simulator: writes docs/pictures/designs.svg, and the table into
# docs/freshness.md. Minutes, once it is built.
designs:
	$(SIM) --designs --seeds 300

lint:
	cargo fmt --all --check
	cargo clippy --locked --workspace --all-targets -- -D warnings
	cargo clippy --locked --features switches --lib --test sim --test services_sim --test chaos --test kills -- -D warnings
	cargo doc --locked --workspace --no-deps --document-private-items --lib
	$(MAKE) --no-print-directory deny

fmt:
	cargo fmt --all

# The language of the house in figures: doc comments, closures with names, test names, denied words.
words:
	cargo test --locked --test words -- --nocapture --test-threads 1

# Licences, bans and sources of what is built. cargo-deny is built into .tools once, in about a minute; where that
# cannot be (no network, an old toolchain) this says so and the rest of the lint stands.
DENY := .tools/bin/cargo-deny
DENY_VERSION := 0.20.2
deny:
	@$(DENY) --version 2>/dev/null | grep -q ' $(DENY_VERSION)$$' || cargo install --quiet --locked --debug \
	    --no-default-features --version $(DENY_VERSION) --root .tools --target-dir target/tools cargo-deny || true
	@rm -rf target/tools
	@if [ -x $(DENY) ]; then $(DENY) check licenses bans sources; \
	 else echo 'deny: cargo-deny $(DENY_VERSION) could not be installed; licences, bans and sources are NOT checked'; fi

# The container image, with buildah, also where no registry of images can be reached; then it is run in a bare chroot.
image:
	deploy/image.sh
	deploy/image-test.sh

# The same for the lab, whose image has both binaries.
image-lab:
	deploy/image.sh lab

# In seconds, without buildah: whether the Dockerfile's steps build from what it brings. Part of `.ci/run`.
image-check:
	deploy/image-check.sh

# The rules and the dashboard that operators load: promtool, with the rules' own tests. Builds promtool with Go once, in three
# minutes; the tests check all but what needs promtool.
rules-check:
	deploy/rules-check.sh

# That every promise in tests/README.md names tests that exist.
check-promises:
	cargo test --locked --test it promises

# Chaos with real processes: MINUTES of faults drawn from SEED, then a sleep of 90 s (tests/chaos/README.md).
SEED ?= 1
MINUTES ?= 5
chaos:
	tests/emulator/setup.sh
	cargo test --locked --test chaos -- --seed $(SEED) --minutes $(MINUTES) --pause-90s

# What strangers leave half done, for SECONDS of each kind, all at once, each on a debug build in a container of 64 MiB of
# its own. Takes root.
attacks: SECONDS ?= 600
attacks:
	NEARSIDE_ATTACKS=$(SECONDS) cargo test --locked --test it -- --nocapture attacks_end_nothing_in_64_mib

# Real processes of every role, killed KILLS times at random instants while WRITES records are written and sidecars read:
# half of it on redb (`dev --data`), half on the emulator, with a tenth of the writes (tests/kills/README.md).
KILLS ?= 200
WRITES ?= 50000
kills:
	tests/emulator/setup.sh
	cargo test --locked --test kills -- --seed $(SEED) --kills $(KILLS) --writes $(WRITES)

# Coverage-guided fuzzing (fuzz/README.md). `fuzz-check`: each target 100,000 times, the same way each time, and a planted
# panic that must be found. `fuzz`: each target for MINUTES (10), going on from what earlier runs found.
fuzz-check:
	fuzz/run.sh check
fuzz:
	fuzz/run.sh long
