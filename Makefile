# Proviso. `make` lists the targets; `make verify` is what CI runs.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-print-directory

GO ?= go
BIN := bin

# Tests and binaries are built with Go's default settings, so that they share one build cache with whatever else is built
# here: a cold build of Kubernetes takes minutes. Test binaries are linked without debug information, which is
# faster, and `make vet` looks at them, so that `go test` need not do it again.
TEST = $(GO) test -ldflags=-w -vet=off

# ---- Versions ---------------------------------------------------------------
# Kubernetes' version comes from go.mod, so that an upgrade is one change there.
# The commit's date, not the clock's, keeps a build reproducible.
KUBE_VERSION  := $(shell sed -n 's/^[[:space:]]*k8s.io\/kubernetes \(v[0-9][^ ]*\).*/\1/p' go.mod | head -n 1)
KUBE_MAJOR    := $(word 1,$(subst ., ,$(patsubst v%,%,$(KUBE_VERSION))))
KUBE_MINOR    := $(word 2,$(subst ., ,$(KUBE_VERSION)))
VERSION       ?= $(shell git describe --tags --match 'v*' --dirty 2>/dev/null || echo v0.1.0-dev)
GIT_COMMIT    := $(shell git rev-parse --verify -q HEAD 2>/dev/null || echo unknown)
GIT_TREE      := $(shell test -z "$$(git status --porcelain 2>/dev/null | head -n 1)" && echo clean || echo dirty)
BUILD_DATE    := $(shell TZ=UTC git log -1 --format=%cd --date=format-local:%Y-%m-%dT%H:%M:%SZ 2>/dev/null || echo 1970-01-01T00:00:00Z)

# kubectl and the server report these; with the unset defaults `kubectl version` fails to parse them.
version_flags = -X $(1).gitVersion=$(KUBE_VERSION) -X $(1).gitMajor=$(KUBE_MAJOR) -X $(1).gitMinor=$(KUBE_MINOR) \
	-X $(1).gitCommit=$(GIT_COMMIT) -X $(1).gitTreeState=$(GIT_TREE) -X $(1).buildDate=$(BUILD_DATE)
release_flags = -X $(1).version=$(VERSION) -X $(1).commit=$(GIT_COMMIT) -X $(1).date=$(BUILD_DATE)
LDFLAGS := -s -w $(call release_flags,proviso.dev/proviso/internal/platform/buildinfo) \
	$(call version_flags,k8s.io/component-base/version) \
	$(call version_flags,k8s.io/client-go/pkg/version)
BUILD := $(GO) build -ldflags '$(LDFLAGS)'

# ---- Knobs ------------------------------------------------------------------
GOLANGCI_VERSION ?= v2.14.0
GOVULNCHECK_VERSION ?= v1.8.0
FUZZTIME  ?= 5s
HUNT_TIME ?= 10m
TESTFLAGS ?=
PROCS     ?= 6
RUNFLAGS  ?=

# The built binary and kubectl prove the product in test/e2e; everything else runs in process.
UNIT_PACKAGES = $$($(GO) list ./... | grep -v -e '/test/e2e')

.PHONY: help
help: ## List the targets
	@printf 'Usage: make TARGET\n\n'
	@awk -F ':.*## ' '/^[a-z][a-z0-9-]*:.*## / {printf "  %-18s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
	@printf '\nVariables: FUZZTIME=%s  TESTFLAGS=%s  PROCS=%s  RUNFLAGS=%s\n' '$(FUZZTIME)' '$(TESTFLAGS)' '$(PROCS)' '$(RUNFLAGS)'

# ---- Build and run ----------------------------------------------------------
.PHONY: build
build: ## Build bin/proviso and bin/kubectl-proviso
	@mkdir -p $(BIN)
	@for cmd in proviso kubectl-proviso; do \
		test -d cmd/$$cmd || continue; \
		echo "building $(BIN)/$$cmd $(VERSION) (Kubernetes $(KUBE_VERSION))"; \
		$(BUILD) -o $(BIN)/$$cmd ./cmd/$$cmd; \
	done

# A build of Kubernetes for one platform takes five to ten minutes. RELEASE_PLATFORMS picks some.
RELEASE_PLATFORMS ?= linux/amd64,linux/arm64,darwin/amd64,darwin/arm64,windows/amd64
RELEASE_URL       ?= https://proviso.dev/releases
.PHONY: release
release: ## What is published, in dist/release: binaries, archives, SBOMs, the image, the krew manifest, checksums
	$(GO) -C hack/release run . -root $(CURDIR) -out dist/release -version '$(VERSION)' -epoch $$(git log -1 --format=%ct) \
		-ldflags '$(LDFLAGS)' -platforms '$(RELEASE_PLATFORMS)' -url '$(RELEASE_URL)'
	@cat dist/release/SHA256SUMS

# Not part of verify: twice Kubernetes. docs/testing.md has figures.
.PHONY: prove-release
prove-release: ## The same commit, built in two places, gives the same bytes, and its image runs without root
	@GO='$(GO)' hack/prove-release.sh

.PHONY: run
run: build ## Build, then run the server (RUNFLAGS="--secure-port 7443")
	$(BIN)/proviso serve $(RUNFLAGS)

# ---- Check ------------------------------------------------------------------
.PHONY: test
test: ## Unit and in-process tests (TESTFLAGS="-run X -v")
	$(TEST) -timeout 20m $(TESTFLAGS) $(UNIT_PACKAGES) ./api/... ./client/...
	$(GO) -C bench test -ldflags=-w -vet=off -timeout 20m $(TESTFLAGS) ./...
	$(GO) -C test/monitoring test -count=1 -vet=off $(TESTFLAGS) ./...
	$(GO) -C hack/release test -vet=off $(TESTFLAGS) ./...

.PHONY: e2e
e2e: build ## Tests of the built binary and its kubectl (TESTFLAGS="-run X -v")
	@if [ ! -d test/e2e ]; then echo 'e2e: there is no test/e2e yet'; exit 1; fi
	PROVISO_BIN=$(CURDIR)/$(BIN)/proviso $(TEST) -count=1 -timeout 40m $(TESTFLAGS) ./test/e2e/...

# Run it with the release that is published; the next one has to read what it wrote (docs/guide/upgrade.md).
.PHONY: keep-release
keep-release: build ## Keep what this release stores, for the tests of the next one
	PROVISO_KEEP_RELEASE=yes $(TEST) -count=1 -run TestStoredFieldsOfReleases ./internal/apis/registry
	PROVISO_KEEP_RELEASE=yes PROVISO_BIN=$(CURDIR)/$(BIN)/proviso $(TEST) -count=1 -run TestKeepRelease ./test/e2e

.PHONY: browser
browser: build ## The explorer in a real browser; installs Chromium where it may, and says so where it skips
	@hack/chromium.sh
	PROVISO_BIN=$(CURDIR)/$(BIN)/proviso $(GO) -C test/browser test -count=1 -timeout 15m $(TESTFLAGS) ./...

.PHONY: explorer-shots
explorer-shots: build ## The pictures of the explorer in the guide, taken anew
	@hack/chromium.sh
	PROVISO_SHOTS=$(CURDIR)/docs/img PROVISO_BIN=$(CURDIR)/$(BIN)/proviso $(GO) -C test/browser test -count=1 -timeout 15m -run 'TestExplorer' ./...

.PHONY: bench-explorer
bench-explorer: build ## The explorer with a hundred thousand bindings: what EX-3 promises (BINDINGS=1000 for fewer); minutes
	@hack/chromium.sh
	PROVISO_BINDINGS=$(or $(BINDINGS),100000) PROVISO_BIN=$(CURDIR)/$(BIN)/proviso $(GO) -C test/browser test -count=1 -timeout 60m -v -run 'TestManyBindings' ./...

.PHONY: conformance
conformance: build ## Upstream's conformance tests that need no node, all gates on and all off
	cd test/conformance && $(GO) run -ldflags=-w ./run -binary $(CURDIR)/$(BIN)/proviso -procs $(PROCS) -specs testdata/specs.txt

.PHONY: conformance-quick
conformance-quick: build ## A representative part of the conformance tests, both modes
	cd test/conformance && $(GO) run -ldflags=-w ./run -binary $(CURDIR)/$(BIN)/proviso -procs $(PROCS) -specs testdata/quick.txt

# docs/testing.md has figures.
.PHONY: suggest-conformance
suggest-conformance: build ## Suggest rights for what the conformance tests did, and prove that they would do (SPECS=specs for all of them)
	cd test/conformance && $(GO) run -ldflags=-w ./run -binary $(CURDIR)/$(BIN)/proviso -modes on -suggest -procs $(PROCS) -specs testdata/$(or $(SPECS),quick).txt $(SUGGESTFLAGS)

# docs/testing.md has figures of these.
.PHONY: conformance-sidecar
conformance-sidecar: export PROVISO_BIN = $(CURDIR)/$(BIN)/proviso
conformance-sidecar: export PROVISO_SOURCE = $(CURDIR)
conformance-sidecar: build ## The conformance tests on a stock kube-apiserver with a side-car (MODES=on,off: and on one alone)
	$(GO) build -o $(BIN)/stock-pair ./test/stock/run
	$(BIN)/stock-pair build
	cd test/conformance && $(GO) run -ldflags=-w ./run -binary $(CURDIR)/$(BIN)/stock-pair -user tester -modes $(or $(MODES),on) -procs $(PROCS) -specs testdata/$(or $(SPECS),specs).txt

.PHONY: examples-sidecar
examples-sidecar: build ## The examples of conditional authorization on a stock kube-apiserver with a side-car
	PROVISO_BESIDE=$(CURDIR)/$(BIN)/proviso $(TEST) -count=1 -timeout 1h -v -run 'TestExamples$$' ./internal/hosts/apiserver

.PHONY: hunt-sidecar
hunt-sidecar: build ## Every way to every endpoint of a stock kube-apiserver with a side-car (PROVISO_HUNT=regexp picks endpoints)
	PROVISO_BESIDE=$(CURDIR)/$(BIN)/proviso $(TEST) -count=1 -timeout 2h -v -run TestBypassHunt ./test/bypass

.PHONY: differ-sidecar
differ-sidecar: build ## The same random requests to a server of ours and to a stock kube-apiserver with a side-car (REQUESTS=100000 FROM=1: in this world they begin)
	PROVISO_DIFFER=$(or $(REQUESTS),100000) PROVISO_DIFFER_FROM=$(or $(FROM),1) PROVISO_BIN=$(CURDIR)/$(BIN)/proviso $(TEST) -count=1 -timeout 4h -v -run TestSidecarDecidesAsAServerDoes ./test/e2e

.PHONY: bench-sidecar
bench-sidecar: build ## What a side-car costs, beside a stock kube-apiserver alone and one with webhooks that do nothing (COSTFLAGS='-sets 1'); minutes
	PROVISO_BIN=$(CURDIR)/$(BIN)/proviso $(GO) run ./test/stock/cost $(COSTFLAGS)

.PHONY: faults-sidecar
faults-sidecar: build ## Kill the parts of a stock kube-apiserver with a side-car while somebody tries forbidden things (ROUNDS=20)
	PROVISO_SOAK=$(or $(ROUNDS),20) PROVISO_BIN=$(CURDIR)/$(BIN)/proviso $(TEST) -count=1 -timeout 2h -v -run 'TestSidecarBesideAStockServer|TestSidecarTwoOfEach' ./test/e2e

# docs/testing.md has figures. upstream-full is what is about the API server, and not about controllers or nodes.
UPSTREAM ?= auth,apiserver/apply
UPSTREAM_FULL = auth,apiserver,apiserver/admissionwebhook,apiserver/anonymous,apiserver/apply,apiserver/cel,apiserver/certreload,apiserver/discovery,apiserver/flowcontrol,apiserver/oidc,$\
	apiserver/openapi,apiserver/peerproxy,apiserver/podlogs,apiserver/portforward,apiserver/tracing,certificates,client,controlplane,controlplane/audit,controlplane/transformation,$\
	dryrun,etcd,namespace,secrets,serviceaccount,storageversion
.PHONY: upstream
upstream: ## Kubernetes' own integration tests against Proviso and stock (UPSTREAM=auth,dryrun UPSTREAMFLAGS='-run TestRBAC -full')
	$(GO) run ./test/upstream/run -packages '$(UPSTREAM)' $(UPSTREAMFLAGS)

.PHONY: upstream-full
upstream-full: ## The same with all packages, dynamic audit served; about two hours
	@$(MAKE) upstream UPSTREAM='$(UPSTREAM_FULL)' UPSTREAMFLAGS='-spool $(UPSTREAMFLAGS)'

.PHONY: upstream-quick
upstream-quick: ## One of them that tries every kind, and needs one server; about a minute
	$(GO) run ./test/upstream/run -packages dryrun -spool

# Not part of verify: about half an hour of processor time.
PAIRS ?= 1000000
.PHONY: prove-compare
prove-compare: ## A million random pairs of conditions: no wrong verdict (PAIRS=100000)
	GOGC=400 PROVISO_PAIRS=$(PAIRS) $(TEST) -count=1 -timeout 4h -v -run TestRelationsHoldInEverySmallWorld ./internal/analysis/compare

.PHONY: prove-revisions
TRIES ?= 10000
prove-revisions: ## Revoke on one replica, ask another with late watches: never the old answer (TRIES=10000)
	PROVISO_REVISION_TRIES=$(TRIES) $(GO) test -count=1 -timeout 4h -v -run TestRevisionsAcrossReplicas ./internal/hosts/apiserver

.PHONY: bench-plan
bench-plan: ## What plan promises: the time of a changed role and binding, and replayed requests a second
	$(GO) test -run xxx -bench 'Changes|Replay|Read' ./internal/analysis/plan ./internal/hosts/offline/replay ./internal/analysis/auditlog

.PHONY: verify
verify: ## Everything that proves the product: formats, vet, layers, generated files, all tests
	@$(MAKE) fmt-check
	@$(MAKE) vet
	@$(MAKE) generate-check
	@$(MAKE) lint
	@$(MAKE) test
	@$(MAKE) e2e
	@$(MAKE) browser
	@$(MAKE) conformance-quick
	@$(MAKE) upstream-quick
	@$(MAKE) vulncheck
	@echo 'verify: all checks passed'

.PHONY: fmt-check
fmt-check: ## Fail when a file is not gofmt'd
	@bad=$$(git ls-files -co --exclude-standard '*.go' | xargs -r gofmt -l); \
	if [ -n "$$bad" ]; then printf 'not gofmt-ed, run gofmt -w on:\n%s\n' "$$bad"; exit 1; fi

.PHONY: vet
vet: ## go vet of every package, the nested modules' too
	$(GO) vet ./... ./api/... ./client/...
	$(GO) -C bench vet ./...
	$(GO) -C test/conformance vet ./...
	$(GO) -C test/monitoring vet ./...
	$(GO) -C test/browser vet ./...
	$(GO) -C hack/release vet ./...
	$(GO) build -tags upstream ./internal/hosts/apiserver ./test/upstream/...

.PHONY: lint
lint: ## golangci-lint, pinned; says so where it cannot be fetched or built
	@GO='$(GO)' GOLANGCI_VERSION='$(GOLANGCI_VERSION)' hack/lint.sh

.PHONY: vulncheck
vulncheck: ## Known vulnerabilities of what is linked; says so where the database cannot be fetched (GOVULNDB=file:///…)
	@GO='$(GO)' GOVULNCHECK_VERSION='$(GOVULNCHECK_VERSION)' hack/vulncheck.sh

.PHONY: cover
cover: ## Test coverage of the packages under internal/, as coverage.html
	$(GO) test -timeout 20m -coverpkg=./internal/... -coverprofile=coverage.out ./internal/...
	$(GO) tool cover -func=coverage.out | tail -n 1
	$(GO) tool cover -html=coverage.out -o coverage.html

# docs/laws.md lists what is tried.
.PHONY: fuzz
fuzz: ## Try every law and fuzz target on new inputs for FUZZTIME each (FUZZ=regexp picks some)
	@GO='$(GO)' FUZZTIME='$(FUZZTIME)' FUZZ='$(or $(FUZZ),.)' LAWS='$(or $(LAWS),yes)' hack/fuzz.sh

# Packages whose mistakes let somebody in, with the further tests that decide about them.
MUTATE ?= ./internal/request/authorize=./test/law ./internal/request/enforce ./internal/request/requestctx ./internal/state/snapshot ./internal/engine/protectedattr ./internal/engine/ruleset \
	./internal/engine/ruleset/matching=./internal/engine/ruleset ./internal/engine/ruleset/persist ./internal/engine/ruleset/escalation
.PHONY: mutate
mutate: ## Break the security-relevant packages in small ways and see that tests notice (MUTATEFLAGS='-n 30 -seed 7')
	$(GO) run ./hack/mutate $(MUTATEFLAGS) $(MUTATE)

# docs/testing.md says what is drawn and what is checked. HUNT_SEED=7 begins elsewhere, HUNT_THEMES=life,grants picks parts of the grammar.
.PHONY: hunt
hunt: ## Search for sequences of requests that get round access control, for HUNT_TIME (what is found is kept in dist/hunt)
	@mkdir -p dist/hunt
	HUNT_TIME=$(HUNT_TIME) HUNT_KEEP=$(CURDIR)/dist/hunt $(TEST) -count=1 -timeout 0 -v -run 'TestAdversary' ./test/adversary

.PHONY: bench-test
bench-test: ## What proviso test promises: cases a second
	$(GO) test -run xxx -bench Cases ./internal/cli/policytools

.PHONY: bench
bench: bench-plan bench-test bench-memory ## Proviso and its peers on the same work, about ten minutes (BENCHFLAGS='-run X -o json')
	$(GO) -C bench run . $(BENCHFLAGS)

.PHONY: bench-memory
bench-memory: ## What a binding takes once it is read, and a role, and decisions about ever other users
	$(GO) test -run xxx -bench Held ./internal/state/source
	$(GO) test -run xxx -bench 'Build|RBAC|Memory' ./internal/engine/ruleset

.PHONY: bench-scale
bench-scale: ## A live server with a million bindings (BINDINGS=100000 for fewer), against its goals; a quarter of an hour
	$(GO) -C bench run . -scale $(or $(BINDINGS),1000000) $(BENCHFLAGS)

.PHONY: bench-replicas
bench-replicas: ## Two replicas on three members of etcd with a million bindings (BINDINGS=100000 for fewer): they agree, and fail over; minutes
	$(GO) -C bench run . -replicas $(or $(BINDINGS),1000000) $(BENCHFLAGS)

.PHONY: bench-watches
bench-watches: ## Ten thousand watches and two thousand clients while policy changes a hundred times a second (WATCHES=1000 for fewer); minutes
	$(GO) -C bench run . -watches $(or $(WATCHES),10000) $(BENCHFLAGS)

.PHONY: bench-reads
bench-reads: ## What a narrowed list costs beside the same list with the selector typed: a ratio of 0.83 is 1.2 times as much
	$(GO) -C bench run . -run narrowed $(BENCHFLAGS)

.PHONY: bench-quick
bench-quick: ## The same with small sizes, about two minutes, to see that it runs
	$(GO) -C bench run . -quick $(BENCHFLAGS)

# ---- Generated files --------------------------------------------------------
.PHONY: generate
generate: ## Write all generated files anew (go generate)
	$(GO) generate ./... ./api/...

.PHONY: generate-check
generate-check: ## Fail when generated files are stale
	@hack=$$(mktemp -d); trap 'rm -rf "$$hack"' EXIT; \
	snapshot() { git ls-files -co --exclude-standard | LC_ALL=C sort | while read -r f; do [ -f "$$f" ] && sha256sum "$$f" || true; done; }; \
	snapshot >"$$hack/before"; \
	$(MAKE) generate >"$$hack/log" 2>&1 || { cat "$$hack/log"; exit 1; }; \
	snapshot >"$$hack/after"; \
	if ! diff "$$hack/before" "$$hack/after" >"$$hack/diff"; then \
		echo 'generated files were stale; `make generate` has now written them, commit the result:'; \
		sed -n 's/^[<>] [0-9a-f]*  /  /p' "$$hack/diff" | sort -u; exit 1; \
	fi

.PHONY: golden
golden: ## Write the golden files of the drift tests anew, after reading what changed
	$(GO) test ./test/drift -update

.PHONY: clean
clean: ## Remove what was built
	rm -rf $(BIN) dist coverage.out coverage.html
