# delayq's commands. `make` alone lists them.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

# How `make run` is built: `dev` builds fastest, `release` runs fastest.
PROFILE ?= dev
BUILT := $(if $(filter dev,$(PROFILE)),debug,$(PROFILE))
# How long the storm day takes when `make run` replays it.
WITHIN ?= 60s
# Everything that the workspace can do, brokers included: the same for lints, documentation and tests, so that nothing
# heavy is built twice. `make lint FEATURES=` leaves the brokers' clients out and is done in a fraction of the time.
FEATURES ?= --all-features
WHOLE := --workspace $(FEATURES)

STORM_LOG := target/storm-day.ndjson

.PHONY: help setup run release test test-rust test-clients check fmt lint doc lua deny bench bench-peers deb check-units deploy-check clean

help: ## list these commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: ## install what is missing for `run`, `test` and `check` (Debian packages; asks apt only when something is)
	@scripts/setup.sh run sinks test check

run: ## build, then run the snow-storm day against a private Redis and etcd: about a minute
	@scripts/setup.sh run
	@mkdir -p $(dir $(STORM_LOG))
	cargo build --profile $(PROFILE) -p delayq-cli --bin delayq --example storm_day
	cargo run --quiet --profile $(PROFILE) -p delayq-cli --example storm_day > $(STORM_LOG)
	cargo run --quiet --profile $(PROFILE) -p delayq-cli --bin delayq -- replay $(STORM_LOG) --up --within $(WITHIN)
	@command -v delayq > /dev/null || echo "delayq itself is $${CARGO_TARGET_DIR:-target}/$(BUILT)/delayq; \`cargo install --locked --path crates/delayq-cli\` puts it on the PATH"

release: ## build every program with every sink, into target/release
	@scripts/setup.sh run sinks
	cargo build --release --bins --features delayq-cli/all-sinks,delayq-forwarder/all-sinks

test: ## every test: the workspace against real servers, then the clients in other languages
	@scripts/setup.sh run sinks test
	@$(MAKE) --no-print-directory test-rust
	@$(MAKE) --no-print-directory test-clients

# Built as a whole first, so that the integration tests find the programs that they start.
test-rust: ## the tests of the Rust workspace alone
	cargo build $(WHOLE) --all-targets
	cargo test $(WHOLE) --no-fail-fast

test-clients: ## the tests of the clients in other languages alone; one without its runtime is skipped by name
	@scripts/test-clients.sh

check: fmt lint doc lua deny ## all that looks at the code without running it

fmt: ## is every file formatted?
	cargo fmt --all --check

lint: ## clippy, warnings are errors
	cargo clippy $(WHOLE) --all-targets -- -D warnings

doc: ## build the documentation, warnings are errors
	RUSTDOCFLAGS=-Dwarnings cargo doc $(WHOLE) --no-deps

lua: ## luacheck over the scripts
	@scripts/setup.sh check
	@scripts/lint-lua.sh

deny: ## licences, bans and sources of all dependencies
	@command -v cargo-deny > /dev/null || cargo install --locked --quiet cargo-deny
	cargo deny --all-features check licenses bans sources

bench: ## the figures of docs/performance.md, measured on this machine
	@scripts/setup.sh run
	cargo build --release -p delayq-cli
	target/release/delayq bench

bench-peers: ## delayq beside BullMQ, asynq and Redisson: about fifteen minutes
	@scripts/setup.sh run
	crates/delayq-bench/peers/compare.py

deb: ## build the Debian package of every program and sink, into target/debian
	@scripts/setup.sh run sinks deploy
	scripts/package-deb.sh release

check-units: ## install the package in a system of its own and try its units: root, about a minute after the build
	@scripts/setup.sh run sinks deploy
	cargo build --bins
	scripts/package-deb.sh dev --no-build
	scripts/check-units.sh target/debian/delayq_*.deb

deploy-check: ## what can be checked of deploy/ without an engine or a cluster; a missing tool is skipped by name
	@scripts/deploy-check.sh

clean: ## remove all that was built
	cargo clean
