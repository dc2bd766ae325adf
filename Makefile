# Two commands do everything on a fresh Debian or Ubuntu: `make demo` and `make test`. `make help`
# lists the rest.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
CARGO ?= cargo
export PATH := $(HOME)/.cargo/bin:$(PATH)
# Where cargo builds.
TARGET := $(or $(CARGO_TARGET_DIR),target)

.PHONY: help demo test test-long docs bench build install uninstall fuzz fuzz-nightly clean
.DEFAULT_GOAL := help

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /  make \1\t/' | expand -t 24

build: ## the release binary: target/release/nw
	@tools/setup build
	$(CARGO) build --release -p nw-cli

demo: ## a real file through real routers, with figures; eight minutes to build on two cores
	@tools/setup build
	$(CARGO) build --profile demo --locked -p nw-cli
	@$(TARGET)/demo/nw demo

test: ## every check of the first tier, and one part of the second
	@tools/setup test
	@tools/check

test-long: ## every part of the second tier: long experiments, attacks, fuzzing; some hours
	@tools/setup test
	@tools/check --long

docs: ## the book of guides, reference and decisions: target/book/index.html
	@docs/build-book

bench: ## every benchmark, or ROW=name; target/bench.json for programs
	@tools/setup build
	$(CARGO) build --release -p nw-cli -p nw-bench
	@if [[ pubsub == '$(ROW)'* || '$(ROW)' == pubsub* ]]; then $(CARGO) build --release --locked \
	  --manifest-path bench/references/Cargo.toml --target-dir $(TARGET)/references || \
	  echo "the references can't be built: the rows of pubsub are measured without them"; fi
	$(TARGET)/release/nw-bench run --row '$(ROW)' --json $(TARGET)/bench.json

fuzz: ## a minute of fuzzing for each decoder (SECONDS_EACH=60)
	@fuzz/run.sh "$${SECONDS_EACH:-60}"

fuzz-nightly: ## ten minutes of fuzzing for each decoder, some four hours: for a nightly job
	@fuzz/run.sh 600

# Builds only if no binary exists, because root, with write access to /usr/local, need not have
# Rust. Installs the binary that `make build` made last.
install: $(if $(wildcard $(TARGET)/release/nw),,build) ## nw, its man pages and completions below PREFIX (default /usr/local)
	@tools/install "$${PREFIX:-/usr/local}"

uninstall: ## remove what make install put below PREFIX
	@tools/install --remove "$${PREFIX:-/usr/local}"

clean: ## remove all build output
	$(CARGO) clean
