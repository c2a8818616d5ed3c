# Hortus. `make help` lists what there is.
SHELL := /bin/bash
.DEFAULT_GOAL := help

BUILD  := .build
HORTUS := $(BUILD)/hortus
TAGS   := grpcnotrace
# The same flags everywhere, so that programs, components, tests and linters share what they compile. Paths are among
# them.
export GOFLAGS := $(strip $(filter-out -trimpath,$(GOFLAGS)) -trimpath)
GO_BUILD := CGO_ENABLED=0 go build -tags $(TAGS)
# Steps of gardenlets on real servers take minutes on a busy machine. With more garbage before it is collected, the
# servers of these tests take a quarter less time. Tests that step controllers on real servers wait for answers half of
# the time, so that more of them than there are cores run side by side. "make lint" and "make check" vet everything.
GO_TEST  = GOGC=400 CGO_ENABLED=0 go test -vet=off -timeout 30m -p 3 -parallel 4 -tags $(TAGS) $(FRESH)
# Tests of these packages make network namespaces, mounts and containers, out of what the landscape has built.
HOST_PACKAGES = ./local/clouddaemon/... ./local/machineinit/... ./local/provider/networkagent/... ./local/provider/csi/... ./local/images/... ./internal/nodeagent ./internal/nodeagent/units/systemd
# The slowest come first, so that both cores have work until the end.
SLOW_SERVER_PACKAGES = ./internal/gardenlet/shoot/test ./internal/etcdmember/command ./internal/apiserver/test/... ./local/provider
UNIT_PACKAGES        = $(shell TAGS=$(TAGS) tools/packages unit)
SERVER_PACKAGES      = $(SLOW_SERVER_PACKAGES) $(shell TAGS=$(TAGS) tools/packages servers)

# Results of each part of the tests are kept in this folder. test-all keeps them in docs, with the page that shows them.
RESULTS ?= $(BUILD)/results
RECORD   = $(BUILD)/tools/testresults -into $(RESULTS) -part

.PHONY: help
help: ## Show this list.
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: build
build: ## Build the hortus binary.
	@mkdir -p $(BUILD)
	@$(GO_BUILD) -ldflags "-s -w" -o $(HORTUS) ./cmd/hortus

.PHONY: up
up: build ## Bring up a whole landscape on this machine (root).
	@$(HORTUS) up

.PHONY: down
down: build ## Remove the landscape without a trace (root).
	@$(HORTUS) down

.PHONY: components
components: build ## Build every component, the Kubernetes versions that the landscape does not need by default too.
	@$(HORTUS) components build --all
	@$(HORTUS) images build --all

.PHONY: root
root:
	@if [ "$$(id -u)" != 0 ]; then \
	  echo "make test needs root: its landscape tests make network namespaces and containers."; \
	  echo "Run it as root, or run 'make test-unit test-servers', which does not."; exit 1; fi

.PHONY: test
test: root ## Run the tests that decide about a change: unit, on servers, and the landscape (root).
	@$(MAKE) --no-print-directory verify
	@# One after the other: each keeps the processors busy by itself. A failure does not hide those of the next.
	@$(MAKE) --no-print-directory --keep-going test-unit test-servers test-landscape

.PHONY: recorder
recorder:
	@mkdir -p $(RESULTS)
	@cd tools && CGO_ENABLED=0 go build -o ../$(BUILD)/tools/ ./testresults

.PHONY: test-unit
test-unit: recorder ## Run unit tests: decisions, and single programs (no root, no servers, minutes).
	@# A failure in one module does not hide those of others.
	@set -o pipefail; { failed=0; \
	  for module in api extension examples/extension tools; do (cd "$$module" && $(GO_TEST) -json ./...) || failed=1; done; \
	  $(GO_TEST) -json $(UNIT_PACKAGES) && [ "$$failed" = 0 ]; } 2>&1 | $(RECORD) unit

.PHONY: test-servers
test-servers: build recorder ## Run controllers step by step on a real etcd, kube-apiserver and API server of Hortus (no root).
	@$(HORTUS) components build etcd kubernetes-1.36.3
	@set -o pipefail; $(GO_TEST) -json $(SERVER_PACKAGES) 2>&1 | $(RECORD) servers

.PHONY: check
check: ## Check formatting, linters and tests of the packages changed against main, and documents and rules of all; BASE=<branch> compares with another one.
	@BASE='$(BASE)' TAGS=$(TAGS) tools/check

# Tries are counted, those for smaller input too: without that, each new path may be worked on for a minute.
GO_FUZZ = $(GO_TEST) -json -run '^$$' -fuzzminimizetime 100x
# Readers of what others write, with a number of tries each that takes a few seconds.
FUZZ = internal/etcdbackup/archive:FuzzReader:2000 internal/apiserver/codec:FuzzJSON:5000 internal/manifest:FuzzRead:2000 \
  internal/gateway:FuzzReadClientHello:20000 \
  internal/egress:FuzzRules:20000 internal/tunnel:FuzzGuard:20000 internal/tunnel:FuzzFrame:20000 internal/tunnel:FuzzRequest:5000 \
  internal/gateway:FuzzReadConnect:2000 internal/gateway:FuzzReadProxyHeader:5000 local/machineinit/unit:FuzzSplitWords:20000 \
  internal/resourcemanager/managedresource:FuzzDecodeValue:10000 internal/validate:FuzzCheck:2000

.PHONY: fuzz
fuzz: recorder ## Try random input on everything that reads what others write; the number of tries is fixed.
	@set -o pipefail; { failed=0; \
	  (cd api && $(GO_FUZZ) -fuzz '^FuzzKinds$$' -fuzztime 2000x ./corpus) || failed=1; \
	  for each in $(FUZZ); do IFS=: read -r package target tries <<< "$$each"; \
	    $(GO_FUZZ) -fuzz "^$$target\$$" -fuzztime "$${tries}x" "./$$package" || failed=1; done; \
	  [ "$$failed" = 0 ]; } 2>&1 | $(RECORD) fuzz

# Stories that decide about a change: a landscape and Shoots from up to down, and what else takes few minutes.
# test-long runs every story, and checks that gardenlets have no right that none of them uses. Others are: many rolls
# of pools, faults that last, rotations that wait, versions that are built first, moves of whole seeds, gardens on
# clusters of their own, other versions of Hortus.
STORIES = TestLandscape|TestRandomEdits|TestRolesOfMembers|TestCredentialsAreRotatedWhileAClientWrites|TestLostEtcdVolumeIsRestored|TestOwnExtensionsMove|TestExampleExtension|TestWebhooksOfAnExtension|TestExtensionsReachTheGarden|TestChartsComeFromRegistries
# Stories do not depend on their order.
GO_TEST_LANDSCAPE = CGO_ENABLED=0 go test -tags $(TAGS),landscape -count=1 -shuffle=on -timeout 80m -v ./test/e2e/...

.PHONY: test-landscape
test-landscape: build recorder ## Bring up a landscape, use it as a person would, and take it down (root).
	@set -o pipefail; $(GO_TEST_LANDSCAPE) -run '^($(STORIES))$$' 2>&1 | $(RECORD) stories
	@set -o pipefail; CGO_ENABLED=0 go test -json -tags $(TAGS),landscape -count=1 -p 1 $(HOST_PACKAGES) 2>&1 | $(RECORD) host

.PHONY: test-all
test-all: root ## Run all tests, also those that take long, and Kubernetes' conformance tests, and write docs/test-results.md (root).
	@$(MAKE) --no-print-directory --keep-going RESULTS=docs FRESH=-count=1 test fuzz test-faults test-race test-long conformance

.PHONY: test-faults
test-faults: build recorder ## Run moves with a fault at every write, and 500 seeds of each simulation of the garden and of Shoots.
	@$(HORTUS) components build etcd kubernetes-1.36.3
	@set -o pipefail; { failed=0; \
	  HORTUS_TEST_POINTS=each $(GO_TEST) -json -run StopAfterEveryWrite ./internal/gardenlet/shoot/test || failed=1; \
	  HORTUS_TEST_SEEDS=500 $(GO_TEST) -json -run TestSimulate ./internal/controllermanager/test ./internal/resourcemanager/test && \
	  [ "$$failed" = 0 ]; } 2>&1 | $(RECORD) faults

.PHONY: test-long
test-long: build recorder ## Run every story, also those that take too long for every change (root); ONLY=<regular expression> runs these and keeps the results of others.
	@set -o pipefail; $(GO_TEST_LANDSCAPE) -timeout 12h $(if $(ONLY),-run '$(ONLY)') -skip 'TestConformance$$' 2>&1 | $(RECORD) long $(if $(ONLY),-add)

.PHONY: test-race
test-race: build recorder ## Run the tests of internal/ with the race detector, except those that need a landscape.
	@$(HORTUS) components build etcd kubernetes-1.36.3
	@set -o pipefail; GOGC=400 CGO_ENABLED=1 go test -json -race -timeout 60m -p 2 -tags $(TAGS) $(FRESH) \
	  ./internal/... 2>&1 | $(RECORD) race

.PHONY: conformance
conformance: build recorder ## Run Kubernetes' conformance tests on a Shoot (root), and write docs/conformance.md; VERSION=1.35.4 is the Shoot's, SPECS=<regular expression> limits them.
	@# The page of all results shows those of specs that failed, too.
	@failed=0; HORTUS_KUBERNETES='$(VERSION)' HORTUS_SPECS='$(SPECS)' \
	  $(GO_TEST_LANDSCAPE) -timeout 6h -run 'TestConformance$$' || failed=1; \
	  $(BUILD)/tools/testresults && [ "$$failed" = 0 ]

.PHONY: bench
bench: build ## Measure landscape, API server and scheduler; print tables and write JSON to .build/bench (root). BENCH_FLAGS=--fresh times the start.
	@mkdir -p $(BUILD)/bench
	@$(HORTUS) bench landscape --json-file $(BUILD)/bench/landscape.json $(BENCH_FLAGS)
	@$(HORTUS) down
	@$(MAKE) --no-print-directory bench-restore bench-api
	@echo "The figures are in $(BUILD)/bench as JSON, too."

.PHONY: bench-restore
bench-restore: build ## Measure how long a database of etcd takes to be saved and restored, and how much memory; MEGABYTES=100.
	@$(HORTUS) components build etcd
	@$(GO_TEST) -run '^$$' -bench BenchmarkRestore -benchtime 1x -timeout 60m ./internal/etcdmember/command -megabytes $(or $(MEGABYTES),100)

.PHONY: bench-api
bench-api: build ## Measure API server and scheduler, with 1,000 and 5,000 Shoots, alongside an etcd and a kube-apiserver of their own.
	@mkdir -p $(BUILD)/bench
	@$(HORTUS) components build etcd kubernetes-1.36.3
	@$(GO_TEST) -run '^$$' -bench 'BenchmarkAPI|BenchmarkScheduler|BenchmarkCeiling' -benchtime 1x -timeout 60m -v ./internal/bench -shoots '[1000,5000]' -reports $(abspath $(BUILD)/bench)

.PHONY: generate
generate: ## Regenerate deepcopy, OpenAPI and CRDs.
	@tools/generate

.PHONY: lint
lint: ## Check formatting, run the linters, and check the types for arm64.
	@unformatted=$$(git ls-files '*.go' | xargs gofmt -l); if [ -n "$$unformatted" ]; then echo "not formatted: $$unformatted"; exit 1; fi
	@CGO_ENABLED=0 go vet -tags $(TAGS),landscape ./...
	@cd api && CGO_ENABLED=0 go vet ./...
	@cd extension && CGO_ENABLED=0 go vet ./...
	@cd examples/extension && CGO_ENABLED=0 go vet ./...
	@cd tools && CGO_ENABLED=0 go vet ./...
	@cd tools && CGO_ENABLED=0 go build -o ../$(BUILD)/tools/ honnef.co/go/tools/cmd/staticcheck
	@CGO_ENABLED=0 $(BUILD)/tools/staticcheck -tags $(TAGS),landscape ./...
	@cd api && CGO_ENABLED=0 ../$(BUILD)/tools/staticcheck ./...
	@cd extension && CGO_ENABLED=0 ../$(BUILD)/tools/staticcheck ./...
	@cd examples/extension && CGO_ENABLED=0 ../../$(BUILD)/tools/staticcheck ./...
	@cd tools && CGO_ENABLED=0 ../$(BUILD)/tools/staticcheck ./...
	@cd tools && CGO_ENABLED=0 go build -o ../$(BUILD)/tools/ ./crosscheck
	@$(BUILD)/tools/crosscheck -arch arm64 -tags $(TAGS),landscape ./...

.PHONY: verify
verify: lint ## Check formatting, linters, and that generated files are up to date.
	@tools/verify

.PHONY: release
release: ## Build programs, image, charts, bill of materials and checksums of a release from the current commit; VERSION=v0.1.0.
	@CGO_ENABLED=0 go run -tags $(TAGS) ./cmd/release $(VERSION)

.PHONY: clean
clean: ## Remove what was built.
	rm -rf $(BUILD)
