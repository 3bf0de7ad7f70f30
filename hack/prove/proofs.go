package main

// proof is one script with a name.
type proof struct {
	name, takes, proves string
	needs               need
	variables           []variable
	script              string
}

// variable is what a caller may change; value is the default.
type variable struct{ name, value string }

// need is what is there before a script begins. Each includes those before it.
type need int

const (
	nothing  need = iota
	binaries      // bin/proviso and bin/kubectl-proviso are built
	chromium      // there is a browser, or the tests that want one skip and say so
)

// proofs are listed in the order in which a reader would look for them. docs/explanation/testing.md and
// docs/benchmarks.md have figures.
var proofs = []proof{
	// ---- Parts of make verify ----
	{"browser", "1 min", "the explorer in a real browser; installs Chromium where it may, and says so where it skips", chromium,
		[]variable{{"TESTFLAGS", ""}},
		`$GO -C test/browser test -count=1 -timeout 15m $TESTFLAGS ./...`},
	{"conformance-quick", "minutes", "a representative part of the conformance tests, all gates on and all off", binaries,
		[]variable{{"PROCS", "6"}},
		`mkdir -p dist && rm -f dist/deeds.log
(cd test/conformance && $GO run -ldflags=-w ./run -binary $BIN/proviso -procs $PROCS -specs testdata/quick.txt -deeds ../../dist/deeds.log)
$GO run ./hack/deeds dist/deeds.log`},
	{"upstream-quick", "1 min", "one of Kubernetes' own integration tests, which tries every kind and needs one server", nothing, nil,
		`$GO run ./test/upstream/run -packages dryrun -spool`},
	{"vulncheck", "minutes", "known vulnerabilities of what is linked; says so where the database cannot be fetched (GOVULNDB=file:///…)", nothing,
		[]variable{{"GOVULNCHECK_VERSION", "v1.8.0"}},
		`hack/vulncheck.sh`},

	// ---- Kubernetes' own tests ----
	{"conformance", "minutes", "upstream's conformance tests that need no node, all gates on, all off, and with hidden fields", binaries,
		[]variable{{"PROCS", "6"}, {"MODES", "on,off,hidden"}},
		`mkdir -p dist && rm -f dist/deeds.log
(cd test/conformance && $GO run -ldflags=-w ./run -binary $BIN/proviso -modes $MODES -procs $PROCS -specs testdata/specs.txt -deeds ../../dist/deeds.log)
$GO run ./hack/deeds dist/deeds.log`},
	{"suggest-conformance", "minutes", "suggested rights for what the conformance tests did would do (SPECS=specs for all of them)", binaries,
		[]variable{{"PROCS", "6"}, {"SPECS", "quick"}, {"SUGGESTFLAGS", ""}},
		`cd test/conformance && $GO run -ldflags=-w ./run -binary $BIN/proviso -modes on -suggest -procs $PROCS -specs testdata/$SPECS.txt $SUGGESTFLAGS`},
	{"upstream", "minutes", "Kubernetes' own integration tests against Proviso and stock (UPSTREAMFLAGS='-run TestRBAC -full')", nothing,
		[]variable{{"UPSTREAM", "auth,apiserver/apply"}, {"UPSTREAMFLAGS", ""}},
		`$GO run ./test/upstream/run -packages "$UPSTREAM" $UPSTREAMFLAGS`},
	{"upstream-full", "2 h", "the same with all packages about the API server, dynamic audit served", nothing,
		[]variable{{"UPSTREAMFLAGS", ""}},
		`$GO run ./test/upstream/run -packages ` + upstreamFull + ` -spool $UPSTREAMFLAGS`},

	// ---- Documents ----
	{"paste-again", "7 min", "the commands of all pages, pasted in order and then again in reverse order (PASTE is a regexp)", binaries,
		[]variable{{"PASTE", ""}},
		`PASTE_AGAIN=yes $TEST -count=1 -timeout 1h -v -run TestDocumentsCanBePasted ./test/e2e`},

	// ---- Beside a stock kube-apiserver ----
	{"conformance-sidecar", "5 min", "the conformance tests on a stock kube-apiserver with a sidecar (MODES=on,off: and on one alone)", binaries,
		[]variable{{"MODES", "on"}, {"PROCS", "6"}, {"SPECS", "specs"}},
		`export PROVISO_SOURCE=$PWD
$GO build -o $BIN/stock-pair ./test/stock/run
$BIN/stock-pair build
cd test/conformance && $GO run -ldflags=-w ./run -binary $BIN/stock-pair -user tester -modes $MODES -procs $PROCS -specs testdata/$SPECS.txt`},
	{"examples-sidecar", "minutes", "the examples of conditional authorization on a stock kube-apiserver with a sidecar", binaries, nil,
		`PROVISO_BESIDE=$PROVISO_BIN $TEST -count=1 -timeout 1h -v -run 'TestExamples$' ./test/server`},
	{"hunt-sidecar", "6 min", "every way to every endpoint of a stock kube-apiserver with a sidecar (PROVISO_HUNT is a regexp)", binaries,
		[]variable{{"PROVISO_HUNT", ""}},
		`PROVISO_BESIDE=$PROVISO_BIN $TEST -count=1 -timeout 2h -v -run TestBypassHunt ./test/bypass`},
	{"differ-sidecar", "12 min", "the same random requests to a server of ours and to a stock one with a sidecar, from world FROM on", binaries,
		[]variable{{"REQUESTS", "100000"}, {"FROM", "1"}},
		`PROVISO_DIFFER=$REQUESTS PROVISO_DIFFER_FROM=$FROM $TEST -count=1 -timeout 4h -v -run TestSidecarDecidesAsAServerDoes ./test/e2e`},
	{"differ-managed", "20 min", "random policies compiled for a stock kube-apiserver (KUBE=1.36, 1.35: an older one): the same random requests to it and to a server of ours", binaries,
		[]variable{{"REQUESTS", "100000"}, {"FROM", "1"}, {"KUBE", ""}},
		`PROVISO_STOCK=${KUBE:-} PROVISO_DIFFER_MANAGED=$REQUESTS PROVISO_DIFFER_FROM=$FROM $TEST -count=1 -timeout 8h -v -run TestManagedClusterDecidesAsAServerDoes ./test/e2e`},
	{"faults-sidecar", "7 min", "forbidden requests fail while the parts of a stock kube-apiserver with a sidecar are killed", binaries,
		[]variable{{"ROUNDS", "20"}},
		`PROVISO_SOAK=$ROUNDS $TEST -count=1 -timeout 2h -v -run 'TestSidecarBesideAStockServer|TestSidecarTwoOfEach' ./test/e2e`},

	// ---- Laws and searches ----
	{"compare", "10 min", "a million random pairs of conditions: no wrong verdict", nothing,
		[]variable{{"PAIRS", "1000000"}},
		`GOGC=400 PROVISO_PAIRS=$PAIRS $TEST -count=1 -timeout 4h -v -run TestRelationsHoldInEverySmallWorld ./internal/analysis/compare`},
	{"revisions", "26 min", "revoke on one replica, ask another with late watches: never the old answer", nothing,
		[]variable{{"TRIES", "10000"}},
		`PROVISO_REVISION_TRIES=$TRIES $TEST -count=1 -timeout 4h -v -run TestRevisionsAcrossReplicas ./test/server`},
	{"hunt", "10 min", "search for sequences of requests that get round access control (finds are kept in dist/hunt; docs/explanation/testing.md)", nothing,
		[]variable{{"HUNT_TIME", "10m"}, {"HUNT_SEED", ""}, {"HUNT_THEMES", ""}, {"HUNT_LANES", ""}, {"HUNT_CASE", ""}},
		`mkdir -p dist/hunt
HUNT_KEEP=$PWD/dist/hunt $TEST -count=1 -timeout 0 -v -run TestAdversary ./test/adversary`},
	{"two-worlds", "1 h", "search for requests whose answers tell what the caller may not see (finds are kept in dist/two-worlds)", nothing,
		[]variable{{"TWOWORLDS_TIME", "1h"}, {"TWOWORLDS_SEED", ""}, {"TWOWORLDS_OPEN", ""}, {"TWOWORLDS_CASE", ""}},
		`mkdir -p dist/two-worlds
TWOWORLDS_KEEP=$PWD/dist/two-worlds $TEST -count=1 -timeout 0 -v -run TestTwoWorlds ./test/twoworlds`},
	{"answers", "1 h", "what who-can, plan, reviews and explain say is what a live server does, on CASES random policies from seed FROM on", nothing,
		[]variable{{"CASES", "2000"}, {"FROM", "1"}},
		`ANSWERS_CASES=$CASES ANSWERS_FROM=$FROM $TEST -count=1 -timeout 0 -v -run TestAnswers ./test/answers`},
	{"mutate", "30 min", "tests notice when security-relevant packages are broken in small ways (MUTATEFLAGS='-n 30 -seed 7')", nothing,
		[]variable{{"MUTATE", mutated}, {"MUTATEFLAGS", ""}},
		`$GO run ./hack/mutate $MUTATEFLAGS $MUTATE`},
	{"cover", "minutes", "test coverage of the packages under internal/, as coverage.html", nothing, nil,
		`$GO test -timeout 20m -coverpkg=./internal/... -coverprofile=coverage.out ./internal/...
$GO tool cover -func=coverage.out | tail -n 1
$GO tool cover -html=coverage.out -o coverage.html`},

	// ---- Releases ----
	{"release", "minutes", "the same commit, built in two places, gives the same bytes, and its image runs without root (COLD=yes)", nothing,
		[]variable{{"COLD", ""}},
		`hack/prove-release.sh`},
	{"keep-release", "minutes", "(a chore) keep what this release stores, for the tests of the next one", binaries, nil,
		`export PROVISO_KEEP_RELEASE=yes
$TEST -count=1 -run TestStoredFieldsOfReleases ./internal/apis/registry
$TEST -count=1 -run TestKeepRelease ./test/e2e`},
	{"rolling", "minutes", "replicas of this release and of a later one, which knows one more field, serve one etcd side by side", binaries, nil,
		`mkdir -p dist/_later
types=$PWD/api/policy/v1alpha1/fieldpermission.go
sed 's|^type FieldPermissionSpec struct {|&\n\tLater string \x60json:"later,omitempty"\x60|' "$types" >dist/_later/fieldpermission.go
grep -q later,omitempty dist/_later/fieldpermission.go
printf '{"Replace": {"%s": "%s"}}' "$types" "$PWD/dist/_later/fieldpermission.go" >dist/_later/overlay.json
$GO build -overlay dist/_later/overlay.json -o dist/_later/proviso ./cmd/proviso
PROVISO_NEWER=$PWD/dist/_later/proviso $TEST -count=1 -timeout 30m -v -run 'TestRollingUpgrade$' ./test/e2e`},
	{"explorer-shots", "1 min", "(a chore) take the pictures of the explorer in the guide again", chromium, nil,
		`PROVISO_SHOTS=$PWD/docs/img $GO -C test/browser test -count=1 -timeout 15m -run TestExplorer ./...`},

	// ---- Measurements; make bench runs those that compare Proviso with its peers ----
	{"bench-quick", "2 min", "make bench with small sizes, to see that it runs", nothing,
		[]variable{{"BENCHFLAGS", ""}},
		`$GO -C bench run . -quick $BENCHFLAGS`},
	{"bench-plan", "minutes", "what plan promises: the time of a changed role and binding, and replayed requests a second", nothing, nil,
		`$GO test -run xxx -bench 'Changes|Replay|Read' ./internal/analysis/plan ./internal/hosts/offline/replay ./internal/analysis/auditlog`},
	{"bench-test", "1 min", "what proviso test promises: cases a second", nothing, nil,
		`$GO test -run xxx -bench Cases ./internal/cli/policytools`},
	{"bench-memory", "minutes", "what a binding takes once it is read, and a role, and decisions about ever other users", nothing, nil,
		`$GO test -run xxx -bench Held ./internal/state/source
$GO test -run xxx -bench 'Build|RBAC|Memory' ./internal/engine/ruleset`},
	{"bench-reads", "minutes", "what a narrowed list costs beside the same list with the selector typed, a union beside an admin's, and one with hidden fields", nothing,
		[]variable{{"BENCHFLAGS", ""}},
		`$GO -C bench run . -run 'narrowed|union|hidden|revealed' $BENCHFLAGS`},
	{"bench-scale", "15 min", "a live server with a million bindings, against its goals", nothing,
		[]variable{{"BINDINGS", "1000000"}, {"BENCHFLAGS", ""}},
		`$GO -C bench run . -scale $BINDINGS $BENCHFLAGS`},
	{"bench-replicas", "minutes", "two replicas on three members of etcd with a million bindings agree, and fail over", nothing,
		[]variable{{"BINDINGS", "1000000"}, {"BENCHFLAGS", ""}},
		`$GO -C bench run . -replicas $BINDINGS $BENCHFLAGS`},
	{"bench-watches", "minutes", "ten thousand watches and two thousand clients while policy changes a hundred times a second", nothing,
		[]variable{{"WATCHES", "10000"}, {"BENCHFLAGS", ""}},
		`$GO -C bench run . -watches $WATCHES $BENCHFLAGS`},
	{"bench-unions", "minutes", "ten thousand watches of unions while policy changes a hundred times a second, beside as many plain ones", nothing,
		[]variable{{"WATCHES", "10000"}, {"BENCHFLAGS", ""}},
		`$GO -C bench run . -watches $WATCHES -unions $BENCHFLAGS`},
	{"bench-explorer", "minutes", "the explorer with a hundred thousand bindings (EX-3)", chromium,
		[]variable{{"BINDINGS", "100000"}},
		`PROVISO_BINDINGS=$BINDINGS $GO -C test/browser test -count=1 -timeout 60m -v -run TestManyBindings ./...`},
	{"bench-sidecar", "minutes", "what a sidecar costs, beside a stock kube-apiserver alone and one with idle webhooks (COSTFLAGS='-sets 1')", binaries,
		[]variable{{"COSTFLAGS", ""}},
		`$GO run ./test/stock/cost $COSTFLAGS`},
}

// upstreamFull is what is about the API server, and not about controllers or nodes.
const upstreamFull = "auth,apiserver,apiserver/admissionwebhook,apiserver/anonymous,apiserver/apply,apiserver/cel,apiserver/certreload," +
	"apiserver/discovery,apiserver/flowcontrol,apiserver/oidc,apiserver/openapi,apiserver/peerproxy,apiserver/podlogs," +
	"apiserver/portforward,apiserver/tracing,certificates,client,controlplane,controlplane/audit,controlplane/transformation," +
	"dryrun,etcd,namespace,secrets,serviceaccount,storageversion"

// mutated are the packages whose mistakes let a user in, with the further tests that decide about them.
const mutated = "./internal/request/authorize=./test/law ./internal/request/enforce ./internal/request/readfilter ./internal/request/errorfilter " +
	"./internal/hosts/sidecar/webhooks=./internal/hosts/sidecar ./internal/request/requestctx ./internal/state/snapshot " +
	"./internal/engine/protectedattr ./internal/engine/ruleset ./internal/engine/ruleset/matching=./internal/engine/ruleset " +
	"./internal/engine/ruleset/persist ./internal/engine/ruleset/escalation"
