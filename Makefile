# delayq's commands. `make` alone lists them.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

# How `make run` is built: `dev` builds fastest, `release` runs fastest.
PROFILE ?= dev
TARGET := $(or $(CARGO_TARGET_DIR),target)
PAGE_TOOLS := $(TARGET)/page-tools
SCHEMATHESIS := $(TARGET)/openapi/bin/st
BUILT := $(TARGET)/$(if $(filter dev,$(PROFILE)),debug,$(PROFILE))
# How long the storm day takes when `make run` rehearses it.
WITHIN ?= 60s
# Everything that the workspace can do, brokers included: the same for lints, documentation and tests, so that nothing
# heavy is built twice. `make lint FEATURES=` leaves the brokers' clients out and is done in a fraction of the time.
FEATURES ?= --all-features
WHOLE := --workspace $(FEATURES)

# The version that `make check-upgrade` starts from: a commit, or a folder of programs.
FROM ?= HEAD^

STORM_LOG := $(TARGET)/storm-day.ndjson

.PHONY: help book docs-figures generate fuzz setup run release test test-long test-rust test-shapes test-servers test-failovers test-writes test-outages test-page test-openapi test-lmstfy test-clients check fmt lint prose doc lua deny package bench bench-scripts bench-gateway bench-page bench-peers deb dist check-units check-upgrade deploy-check clean

help: ## list these commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: ## install what is missing for `run`, `test` and `check` (Debian packages; asks apt only when something is)
	@scripts/setup.sh run sinks test check

run: ## build, then run the snow-storm day against a private Redis and etcd: about a minute
	@scripts/setup.sh run
	@mkdir -p $(dir $(STORM_LOG))
	cargo build --profile $(PROFILE) -p delayq-cli -p delayq-bench --bin delayq --bin delayq-rehearse --bin storm-day
	$(BUILT)/storm-day > $(STORM_LOG)
	$(BUILT)/delayq-rehearse $(STORM_LOG) --up --within $(WITHIN)
	@command -v delayq > /dev/null || echo "delayq itself is $(BUILT)/delayq; \`cargo install --locked --path crates/delayq-cli\` puts it on the PATH"

release: ## build every program with every sink and intake, into target/release
	@scripts/setup.sh run sinks
	cargo build --release --bins --features delayq-cli/full,delayq-forwarder/full,delayq-compensator/full

test: ## every test: the workspace against real servers, then the clients in other languages
	@scripts/setup.sh run sinks test
	@scripts/valkey.sh
	@scripts/test-clients.sh install
	@$(MAKE) --no-print-directory $(PAGE_TOOLS) $(SCHEMATHESIS)
	@DELAYQ_TEST_PAGE=$(abspath $(PAGE_TOOLS)) DELAYQ_TEST_JOURNEYS=short DELAYQ_TEST_SCHEMATHESIS=$(abspath $(SCHEMATHESIS)) \
		$(MAKE) --no-print-directory test-rust CLIENTS=--clients

# What drives a browser.
$(PAGE_TOOLS): Makefile
	@npm install --silent --ignore-scripts --no-audit --no-fund --prefix $@ playwright-core@1.65.1 axe-core@4.14.1
	@touch $@

# What reads the gateway's OpenAPI document and makes requests of it.
$(SCHEMATHESIS): Makefile
	@test -x $(@D)/pip || python3 -m venv $(TARGET)/openapi
	@$(@D)/pip install --quiet --disable-pip-version-check schemathesis==4.32.5
	@touch $@

test-long: export DELAYQ_TEST_LONG = 1
test-long: ## every test at its full length, with more seeds and records: an hour and more
	@$(MAKE) --no-print-directory test

# Built as a whole first, so that the integration tests find the programs that they start.
test-rust: ## the tests of the Rust workspace alone
	cargo build $(WHOLE) --all-targets
	@scripts/test-rust.py $(CLIENTS) $(WHOLE)

test-shapes: ## the tests of delayq, the timer and the forwarder on Redis Cluster and behind sentinels; or SHAPES=cluster
	cargo build $(WHOLE) --bins
	@scripts/test-shapes.sh $(or $(SHAPES),cluster sentinel)

test-servers: ## the tests of scripts, clients and timers on Redis 7.4 to 8.6, Redict, and Valkey 8 and 9; or SERVERS=redis-8.6
	@scripts/setup.sh run test
	cargo build $(WHOLE) --bins
	@scripts/test-servers.sh $(SERVERS)

test-failovers: ## failovers by Sentinel under load: is what replicas confirmed still there? FAILOVERS=20: about ten minutes
	@scripts/setup.sh run test
	DELAYQ_TEST_FAILOVERS=$(or $(FAILOVERS),20) cargo test -p delayq $(FEATURES) --test shapes failovers::confirmed -- \
		--nocapture --test-threads=1

test-writes: ## recorded writes of few messages while compensators are killed, by each database and broker; or WRITES=50000
	@scripts/setup.sh run sinks test
	DELAYQ_TEST_WRITES=$(or $(WRITES),50000) cargo test -p delayq-compensator $(FEATURES) --test outbox --test intake -- \
		--nocapture --test-threads=1 each_message_ends

test-outages: export DELAYQ_TEST_OUTAGES = $(or $(OUTAGES),1000)
test-outages: export DELAYQ_TEST_OUTAGES_AT_ONCE = $(or $(AT_ONCE),1)
test-outages: ## a fleet, then the clients, through 1,000 random outages of every shape of Redis: hours; or OUTAGES=60 AT_ONCE=4
	@scripts/setup.sh run test
	cargo build $(WHOLE) --bins
	cargo test -p delayq-cli $(FEATURES) --test cli -- outages:: --nocapture
	scripts/test-clients.sh outages

test-page: ## the page in a real Chromium: every journey, every screen in both themes, wide and narrow; SHOTS=DIR keeps pictures
	@scripts/setup.sh run page
	@$(MAKE) --no-print-directory $(PAGE_TOOLS)
	cargo build $(WHOLE) --bins
	DELAYQ_TEST_PAGE=$(abspath $(PAGE_TOOLS)) cargo test -p delayq-gateway $(FEATURES) --test gateway -- page:: --nocapture

test-openapi: ## schemathesis against a gateway: is every answer as openapi.json says? half a minute after the build
	@scripts/setup.sh run test
	@$(MAKE) --no-print-directory $(SCHEMATHESIS)
	cargo build $(WHOLE) --bins
	DELAYQ_TEST_SCHEMATHESIS=$(abspath $(SCHEMATHESIS)) cargo test -p delayq-gateway $(FEATURES) --test gateway -- \
		openapi:: --nocapture

test-lmstfy: ## the tests of lmstfy's own clients against a gateway; SOURCE=FOLDER of its repositories, else from GitHub; a minute
	@scripts/lmstfy-clients.sh $(SOURCE)
	cargo build $(WHOLE) --bins
	DELAYQ_TEST_LMSTFY=$(CURDIR)/target/lmstfy cargo test -p delayq-gateway $(FEATURES) --test gateway -- lmstfy::clients --nocapture

test-clients: ## the tests of the clients in other languages alone; one without its runtime is skipped by name
	@scripts/test-clients.sh

check: fmt prose lint doc lua deny ## all that looks at the code without running it

fmt: ## is every file formatted, its imports too? (mended by cargo fmt and scripts/imports.py)
	cargo fmt --all --check
	@scripts/imports.py --check

lint: ## clippy, warnings are errors
	cargo clippy $(WHOLE) --all-targets -- -D warnings
	cargo check -p delayq-cli -p delayq-bench --bins # with the features of `make run`

prose: ## are comments and strings plain? two counts in each tree, with limits (scripts/prose.py FILE names the sentences)
	@scripts/prose.py

doc: ## build the documentation, warnings are errors
	RUSTDOCFLAGS=-Dwarnings cargo doc $(WHOLE) --lib --no-deps

lua: ## luacheck over the scripts
	@scripts/setup.sh check
	@scripts/lint-lua.sh

book: ## build the book of docs/ into target/book
	@scripts/deploy-tools.sh book
	PATH=$(CURDIR)/target/deploy-tools/bin:$$PATH mdbook build docs

generate: export DELAYQ_UPDATE = 1
generate: ## write again what tests compare with the code: reference pages, schemas, the clients' tables and scripts
	scripts/lint-lua.sh --write
	rm -r clients/go/lua && cp -r lua clients/go/lua
	cargo build $(WHOLE) --bins
	cargo test $(WHOLE) --test answers --test cli --test client --test gateway --test integration -- \
		description:: reference:: vectors:: document:: metrics:: chart::

docs-figures: ## draw the pictures of docs/figures, from the scripts and from the data there
	cargo run --quiet -p delayq-bench --bin docs-figures

FUZZED := core service spool cli forwarder compensator gateway

# Linking everything together would take longer than it saves.
fuzz: export CARGO_PROFILE_RELEASE_LTO = off
fuzz: export CARGO_PROFILE_RELEASE_CODEGEN_UNITS = 16
fuzz: ## more than ten million mutated inputs to all that reads foreign bytes: about half an hour
	cargo test --release $(FUZZED:%=-p delayq-%) --lib --test answers --test cli --test service --test gateway -- --ignored long::

# A tool that is built for one run is built soonest with few optimisations.
QUICKLY := CARGO_PROFILE_RELEASE_OPT_LEVEL=1 CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_CODEGEN_UNITS=64

deny: ## licences, bans and sources of all dependencies, and that each is used
	@command -v cargo-deny > /dev/null || $(QUICKLY) cargo install --locked --quiet cargo-deny
	@command -v cargo-machete > /dev/null || $(QUICKLY) cargo install --locked --quiet cargo-machete
	cargo deny --all-features check licenses bans sources
	cargo machete

package: ## package every published crate, and build each from its package alone, but not with VERIFY=no
	cargo package --locked --workspace --exclude delayq-bench --exclude delayq-tests $(if $(filter no,$(VERIFY)),--no-verify)

bench: ## the figures of docs/performance.md, measured on this machine
	@scripts/setup.sh run
	cargo build --release -p delayq-bench --bin delayq-bench
	$(TARGET)/release/delayq-bench

bench-scripts: ## what each script costs inside Redis, compared with its bare commands: about ten minutes
	@scripts/setup.sh run
	cargo run --release -p delayq-bench --bin script-cost

bench-gateway: ## the gateway's rates, waiting reserves, and a tenant beside a flood: about fourteen minutes; LMSTFY=PROGRAM measures it too
	@scripts/setup.sh run
	cargo build --release --workspace --bin delayq-gateway --bin delayq-timer --bin gateway-bench
	$(TARGET)/release/gateway-bench rates $(LMSTFY:%=--lmstfy %)
	$(TARGET)/release/gateway-bench waiting
	$(TARGET)/release/gateway-bench neighbours

bench-page: ## the calls of the page at ten million pending messages, and an operation on a million: about ten minutes, 6 GB
	@scripts/setup.sh run
	cargo build --release --workspace --bin delayq-gateway --bin delayq-timer --bin gateway-bench
	$(TARGET)/release/gateway-bench page

bench-peers: ## delayq compared with BullMQ, asynq, Redisson and bunqueue: more than an hour
	@scripts/setup.sh run
	bench/peers/compare.py

deb: ## build the Debian package of every program and sink, into target/debian
	@scripts/setup.sh run sinks deploy
	scripts/package-deb.sh release

dist: ## the tarball of every program and sink with checksums and bills of materials, into target/dist; or of PROFILE=
	@scripts/setup.sh run sinks
	scripts/dist.sh $(if $(filter command,$(origin PROFILE)),$(PROFILE),release)

check-units: ## install the package in a system of its own and try its units: root, about a minute after the build
	@scripts/setup.sh run sinks deploy
	cargo build --bins
	scripts/package-deb.sh dev --no-build
	scripts/check-units.sh target/debian/delayq_*.deb

check-upgrade: ## replace timers and workers of the commit FROM by today's and back again, under load; builds both
	@scripts/setup.sh run
	cargo build -p delayq-cli -p delayq-timer --bins
	scripts/check-upgrade.sh $(TARGET)/debug $(FROM)

deploy-check: ## what can be checked of deploy/ without an engine or a cluster; a missing tool is skipped by name
	@scripts/deploy-check.sh

clean: ## remove all that was built
	cargo clean

DOCKER ?= docker
IMAGE ?= delayq:latest
# One service alone, such as delayq-timer; empty for every program.
PROGRAM ?=

.PHONY: image check-deploy

image: ## build the container image of every program, or of one: PROGRAM=delayq-timer
	DOCKER_BUILDKIT=1 $(DOCKER) build --file deploy/docker/Dockerfile --tag $(IMAGE) --build-arg PROGRAM=$(PROGRAM) \
		--build-arg VERSION=$$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1) \
		--build-arg REVISION=$$(git rev-parse HEAD) \
		--build-arg SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct) \
		--build-arg CREATED=$$(git log -1 --format=%cI) \
		$(DOCKER_BUILD_OPTIONS) .

check-deploy: ## the package, the image and compose file on a real engine, the chart in a real API server: root, minutes; STAGE=units, docker or cluster
	@scripts/check-deploy.sh $(STAGE)
