# Glovebox. `make help` lists what there is; README.md says where to begin.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

# The standard library of Go 1.26.8 has known faults; this one is fetched by the
# go command itself. The tags keep the engine's bindings free of C.
export GOTOOLCHAIN := go1.27.3
export GOFLAGS := -buildvcs=false -tags=remote,containers_image_openpgp,exclude_graphdriver_btrfs,exclude_graphdriver_devicemapper

BIN   := out/bin
TOOLS := .cache/tools

# Seconds each suite is expected to take on two cores. ci/suite prints the time
# beside the budget, warns when it is over, and ends a suite that takes three
# times as long, since then it hangs.
BUDGET_setup  := 120
BUDGET_build  := 360
BUDGET_lint   := 180
BUDGET_unit   := 420
BUDGET_race   := 120
BUDGET_core   := 300
BUDGET_corpus := 120
BUDGET_client := 180
BUDGET_e2e    := 320
BUDGET_probes := 90
BUDGET_attack := 300
BUDGET_chaos  := 100

suite = ci/suite $(1) $(BUDGET_$(1))

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z0-9_-]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: setup
setup: ## install what a fresh machine lacks (Debian packages, Go tools)
	@$(call suite,setup) ci/setup

# --- build -------------------------------------------------------------------

.PHONY: build
build: setup ## build every program and the core's image into out/
	@$(call suite,build) $(MAKE) programs client-program image

.PHONY: programs
programs:
	@mkdir -p $(BIN)
	CGO_ENABLED=0 go build -trimpath -ldflags='-s -w' -o $(BIN)/glovebox-server ./system/server/cmd/server
	CGO_ENABLED=0 go build -trimpath -ldflags='-s -w' -o $(BIN)/glovebox-worker ./system/worker/cmd/worker
	CGO_ENABLED=0 go build -trimpath -ldflags='-s -w' -o $(BIN)/glovebox-launcher ./system/worker/cmd/launcher
	CGO_ENABLED=0 go build -trimpath -o $(BIN)/glovebox-local ./ci/local/cmd/local
	CGO_ENABLED=0 go build -trimpath -o $(BIN)/glovebox-attack ./attacks/cmd/attack

.PHONY: client-program
client-program:
	@mkdir -p $(BIN)
	cargo build --quiet --release --locked --manifest-path client/Cargo.toml --target-dir client/target
	install -m 755 client/target/release/glovebox $(BIN)/glovebox

.PHONY: image
image: ## build the core and its images (OCI layouts in out/images)
	@mkdir -p out/images out/probe
	@$(MAKE) -C core build
	@gcc -static -O2 -Wall -Wextra -Werror -o out/probe/probe system/worker/internal/container/selftest/program/probe.c
	@CGO_ENABLED=0 go build -o $(BIN)/glovebox-image ./ci/image
	@for image in core/core core/copy probe/probe; do \
	  $(BIN)/glovebox-image --binary out/$$image --out out/images/$${image#*/} >out/images/$${image#*/}.json; done

# --- run ---------------------------------------------------------------------

.PHONY: up
up: build ## start the whole system in the background (SET='lease.duration=3s' WORKERS=2 SERVERS=2 IMAGE=... PORT_BASE=N)
	@$(BIN)/glovebox-local up $(if $(SET),--set '$(SET)') $(if $(WORKERS),--workers $(WORKERS)) \
	  $(if $(SERVERS),--servers $(SERVERS)) $(if $(IMAGE),--image '$(IMAGE)') $(if $(STORAGE),--storage $(STORAGE)) $(if $(PORT_BASE),--port-base $(PORT_BASE))

.PHONY: down
down: ## stop what `make up` started and remove its state
	@test -x $(BIN)/glovebox-local || CGO_ENABLED=0 go build -o $(BIN)/glovebox-local ./ci/local/cmd/local
	@$(BIN)/glovebox-local down

.PHONY: demo
demo: build corpus ## the whole system on real Lua files, before your eyes
	@go run ./ci/demo

# --- check -------------------------------------------------------------------

.PHONY: test
test: ## every suite in its CI size, with evidence in out/evidence/ci
	@rm -rf out/parts out/evidence/ci out/suites.tsv
	@mkdir -p out/parts out/evidence/ci
	@$(MAKE) build
	@status=0; $(MAKE) --keep-going lint unit race core client e2e probes-short chaos-short attack-short || status=$$?; ci/merge || status=1; exit $$status

.PHONY: lint
lint: ## static checks of Go, Rust and C++
	@$(call suite,lint) ci/lint

.PHONY: unit
unit: ## Go tests beside the code, against real PostgreSQL and podman
	@$(call suite,unit) ci/gotest unit $$(go list ./... | grep -v /system/e2e)

# The packages in which goroutines share memory; the model tests would be too slow.
CONCURRENT := ./system/platform/... ./system/server/internal/auth ./system/server/internal/jobs \
  ./system/server/internal/httpapi/... ./system/server/internal/storage/... \
  ./system/worker/internal/jobs/... ./system/worker/internal/executor/...

.PHONY: race
race: ## the concurrent packages' tests under the race detector
	@$(call suite,race) go test -race -p 2 -count=1 -timeout 10m $(CONCURRENT)

.PHONY: e2e
e2e: ## the whole system, real parts
	@$(call suite,e2e) ci/gotest e2e ./system/e2e/...

.PHONY: chaos
chaos: build ## break everything under load for half an hour (ROUNDS=, DURATION=, SEED=, CASE= narrow it)
	@ROUNDS='$(ROUNDS)' DURATION='$(DURATION)' SEED='$(SEED)' CASE='$(CASE)' go run ./chaos

.PHONY: chaos-short
chaos-short: ## one fault of each group, drawn by a seed
	@$(call suite,chaos) go run ./chaos --short

.PHONY: properties
properties: ## the life of a job, full size: model, parallel histories, planted faults (STEPS=1000000 HISTORIES=20000 SEED=n)
	@mkdir -p out
	@GLOVEBOX_MODEL_STEPS=$(or $(STEPS),1000000) GLOVEBOX_HISTORIES=$(or $(HISTORIES),20000) GLOVEBOX_SEED=$(SEED) GLOVEBOX_PLANTED=all \
	  go test -count=1 -p 1 -v -timeout 120m -run 'AnyInterleaving|ParallelHistories|Planted|Lifted' \
	  ./system/server/internal/jobs/domain ./system/server/internal/jobs/histories ./system/server/internal/jobs/planted \
	  | grep --line-buffered -v '\[rapid\] OK' | tee out/properties.txt

.PHONY: probes
probes: build ## try to break out of the sandbox, full size, seven minutes (CASE=word narrows it)
	@go run ./sandbox-probes

.PHONY: probes-short
probes-short: ## the same in its CI size
	@$(call suite,probes) go run ./sandbox-probes --short

.PHONY: bench
bench: build ## measure beside peers (CASE=sandbox), out/bench/CASE.json; wants a quiet machine
	@go run ./bench $(or $(CASE),sandbox)

.PHONY: probes-v2
probes-v2: build ## the sandbox in its preferred mode (rootless, cgroup version 2), in an emulated machine; its disk is made once
	@ci/vm/setup
	@go run ./ci/vm/probes

.PHONY: attack
attack: build ## attack the real system, all of it (CASE='family id glob...' and SEED=n narrow and repeat it)
	@$(BIN)/glovebox-attack run $(CASE) $(if $(SEED),--seed $(SEED))

.PHONY: attack-short
attack-short: ## the same in its CI size
	@$(call suite,attack) $(BIN)/glovebox-attack run --short --evidence out/evidence/ci/attacks.json

.PHONY: core
core: ## the core: units, sanitizers, the bytecode proof over the corpus, a short fuzz
	@$(call suite,core) ci/core

.PHONY: client
client: ## the client's tests
	@$(call suite,client) ci/client

.PHONY: corpus
corpus: ## fetch the Debian packages that the core's proof reads
	@$(call suite,corpus) ci/corpus

.PHONY: fmt
fmt: ## format everything
	gofmt -w $$(git ls-files '*.go')
	cargo fmt --manifest-path client/Cargo.toml

.PHONY: clean
clean: down ## stop everything and remove out/
	rm -rf out
