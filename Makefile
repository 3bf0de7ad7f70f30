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
# faster, and `make lint` looks at them, so `go test` need not do it again.
# Tests and the servers they start have little memory to collect; with Go's usual GOGC they spend a sixth of their
# processor time on it.
TEST = GOGC=300 $(GO) test -ldflags=-w -vet=off

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
FUZZTIME  ?= 5s
TESTFLAGS ?=
RUNFLAGS  ?=

# The built binary and kubectl prove the product in test/e2e; everything else runs in process. What takes longest begins
# first, and three packages run at a time: their servers wait more than they work.
UNIT_PACKAGES = ./test/server ./test/bypass $$($(GO) list ./... | grep -v -e '/test/e2e')

.PHONY: help
help: ## List the targets
	@printf 'Usage: make TARGET\n\n'
	@awk -F ':.*## ' '/^[a-z][a-z0-9-]*:.*## / {printf "  %-18s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
	@printf '\nVariables: FUZZTIME=%s  TESTFLAGS=%s  RUNFLAGS=%s\n' '$(FUZZTIME)' '$(TESTFLAGS)' '$(RUNFLAGS)'

# ---- Build and run ----------------------------------------------------------
.PHONY: build
build: ## Build bin/proviso, bin/kubectl-proviso and bin/proviso-mcp
	@mkdir -p $(BIN)
	@for cmd in proviso kubectl-proviso; do \
		test -d cmd/$$cmd || continue; \
		echo "building $(BIN)/$$cmd $(VERSION) (Kubernetes $(KUBE_VERSION))"; \
		$(BUILD) -o $(BIN)/$$cmd ./cmd/$$cmd; \
	done
	@echo "building $(BIN)/proviso-mcp $(VERSION)"
	@$(GO) -C cmd/proviso-mcp build -ldflags '$(LDFLAGS)' -o $(CURDIR)/$(BIN)/proviso-mcp .

# A build of Kubernetes for one platform takes five to ten minutes. RELEASE_PLATFORMS picks some.
RELEASE_PLATFORMS ?= linux/amd64,linux/arm64,darwin/amd64,darwin/arm64,windows/amd64
RELEASE_URL       ?= https://proviso.dev/releases
# A file with an Ed25519 key (openssl genpkey -algorithm ed25519), or its text in the environment as RELEASE_KEY.
RELEASE_KEY_FILE  ?=
.PHONY: release
release: ## What is published, in dist/release: archives, SBOMs, the image, the krew manifest, checksums; signed with RELEASE_KEY_FILE
	$(GO) -C hack/release run . -root $(CURDIR) -out dist/release -version '$(VERSION)' -epoch $$(git log -1 --format=%ct) \
		-ldflags '$(LDFLAGS)' -platforms '$(RELEASE_PLATFORMS)' -url '$(RELEASE_URL)' \
		-commit '$(GIT_COMMIT)' -key '$(abspath $(RELEASE_KEY_FILE))'
	@cat dist/release/SHA256SUMS

.PHONY: run
run: build ## Build, then run the server (RUNFLAGS="--secure-port 7443")
	$(BIN)/proviso serve --feature-gates=UnionReads=true,NarrowedTokens=true --authorization-recheck=All $(RUNFLAGS)

# ---- Check ------------------------------------------------------------------
# Packages whose tests do not link the whole of Kubernetes: they link in seconds.
QUICK_PACKAGES = $$($(GO) list -test -f '{{$$whole := false}}{{range .Deps}}{{if eq . "k8s.io/kubernetes/pkg/controlplane"}}{{$$whole = true}}{{end}}{{end}}{{if not $$whole}}{{.ImportPath}}{{end}}' \
	$(UNIT_PACKAGES) | sed -n 's/\.test$$//p')

.PHONY: check
check: fmt-check ## For every commit, minutes: formats, vet, and the tests that do not link Kubernetes
	$(GO) vet ./... ./api/... ./client/...
	$(TEST) -timeout 10m $(TESTFLAGS) $(QUICK_PACKAGES) ./api/... ./client/...
	@echo 'check: passed; `make verify` also runs servers'

.PHONY: test
test: ## Unit and in-process tests (TESTFLAGS="-run X -v")
	$(TEST) -p 3 -timeout 40m $(TESTFLAGS) $(UNIT_PACKAGES) ./api/... ./client/...
	$(GO) -C bench test -ldflags=-w -vet=off -timeout 20m $(TESTFLAGS) ./...
	$(GO) -C test/monitoring test -count=1 -vet=off $(TESTFLAGS) ./...
	$(GO) -C hack/release test -vet=off $(TESTFLAGS) ./...
	$(GO) -C examples/webhook-authorizer test -vet=off $(TESTFLAGS) ./...

.PHONY: e2e
e2e: build ## Tests of the built binary and its kubectl (TESTFLAGS="-run X -v")
	PROVISO_BIN=$(CURDIR)/$(BIN)/proviso $(TEST) -count=1 -timeout 40m $(TESTFLAGS) ./test/e2e/...
	PROVISO_BIN=$(CURDIR)/$(BIN)/proviso $(GO) -C cmd/proviso-mcp test -ldflags=-w -vet=off -count=1 $(TESTFLAGS) ./...

# Each part says how long it took; CI's workflow runs the same parts side by side. Servers wait more than they work, so
# the tests that start binaries run beside the others. Their output follows at the end. Both rows take about as long.
VERIFY_FIRST         = fmt-check vet generate-check
VERIFY               = lint test
VERIFY_PROOFS        = browser upstream-quick
VERIFY_BESIDE        = e2e
VERIFY_BESIDE_PROOFS = conformance-quick vulncheck
.PHONY: verify
verify: ## Everything that proves the product: formats, vet, layers, generated files, all tests
	@out=$$(mktemp -d); trap 'rm -rf "$$out"' EXIT; trap 'trap - TERM; kill 0' INT TERM; \
	part() { local began=$$SECONDS; $$2 "$$1"; printf '\n  %-18s %2d:%02d' "$$1" $$(((SECONDS - began) / 60)) $$(((SECONDS - began) % 60)) >>"$$out/took"; }; \
	row() { for name in $$1; do part "$$name" '$(MAKE)'; done; for name in $${2:-}; do part "$$name" '$(GO) run ./hack/prove'; done; }; \
	row '$(VERIFY_FIRST)'; \
	(row '$(VERIFY_BESIDE)' '$(VERIFY_BESIDE_PROOFS)') >"$$out/beside" 2>&1 & beside=$$!; \
	(row '$(VERIFY)' '$(VERIFY_PROOFS)') & tests=$$!; \
	failed=0; wait $$tests || failed=1; wait $$beside || failed=1; cat "$$out/beside"; \
	printf 'parts that passed:%s\n' "$$(cat "$$out/took")"; \
	if [ $$failed = 1 ]; then echo 'verify: failed'; exit 1; fi; echo 'verify: all checks passed'

.PHONY: fmt-check
fmt-check: ## Fail when a file is not gofmt'd
	@bad=$$(git ls-files -co --exclude-standard '*.go' | xargs -r gofmt -l); \
	if [ -n "$$bad" ]; then printf 'not gofmt-ed, run gofmt -w on:\n%s\n' "$$bad"; exit 1; fi

.PHONY: vet
vet: ## go vet of the nested modules; make lint does the same, and more, for all other packages
	$(GO) -C cmd/proviso-mcp vet ./...
	$(GO) -C bench vet ./...
	$(GO) -C test/conformance vet ./...
	$(GO) -C test/monitoring vet ./...
	$(GO) -C test/browser vet ./...
	$(GO) -C examples/webhook-authorizer vet ./...
	$(GO) -C hack/release vet ./...

.PHONY: lint
lint: ## golangci-lint, pinned; says so where it cannot be fetched or built
	@GO='$(GO)' GOLANGCI_VERSION='$(GOLANGCI_VERSION)' hack/lint.sh

# docs/explanation/laws.md lists what is tried.
.PHONY: fuzz
fuzz: ## Try every law and fuzz target on new inputs for FUZZTIME each (FUZZ=regexp picks some)
	@GO='$(GO)' FUZZTIME='$(FUZZTIME)' FUZZ='$(or $(FUZZ),.)' LAWS='$(or $(LAWS),yes)' hack/fuzz.sh

.PHONY: bench
bench: ## Proviso and its peers on the same work, about ten minutes (BENCHFLAGS='-run X -o json')
	$(GO) run ./hack/prove bench-plan
	$(GO) run ./hack/prove bench-test
	$(GO) run ./hack/prove bench-memory
	$(GO) -C bench run . $(BENCHFLAGS)

.PHONY: prove
prove: ## List the long proofs, measurements and chores: go run ./hack/prove NAME
	@$(GO) run ./hack/prove

# ---- Generated files --------------------------------------------------------
.PHONY: generate
generate: ## Write all generated files again (go generate)
	$(GO) generate ./api/... # first: pages are made of it
	$(GO) generate ./...

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
golden: ## Write the golden files of the drift tests again, after reading what changed
	$(GO) test ./test/drift -update

.PHONY: clean
clean: ## Remove what was built
	rm -rf $(BIN) dist coverage.out coverage.html
