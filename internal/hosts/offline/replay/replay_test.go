package replay

import (
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"k8s.io/apiserver/pkg/authorization/authorizer"

	"proviso.dev/proviso/internal/analysis/auditlog"
	"proviso.dev/proviso/internal/analysis/plan"
	"proviso.dev/proviso/internal/hosts/offline"
	"proviso.dev/proviso/internal/state/source"
)

const roles = `apiVersion: authorization.proviso.dev/v1alpha1
kind: Role
metadata: {name: dev, namespace: hammer}
rules:
- {verbs: [get, list], resourceKinds: [pods]}
- {verbs: [create, update, delete, watch], resourceKinds: [pods], where: resource.spec.nodeName == "a"}
---
apiVersion: authorization.proviso.dev/v1alpha1
kind: RoleBinding
metadata: {name: dev, namespace: hammer}
roleRef: {namespace: hammer, name: dev}
groupNames: [devs, "system:nodes"]
`

func hostOf(t testing.TB, text string) *offline.Host {
	t.Helper()
	h, err := offline.New(offline.Config{Texts: []source.Text{{Name: "policy", Data: []byte(text)}}, MasterNamespace: "master"})
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// event is a line of a log.
func event(user, group, verb, more string) string {
	return fmt.Sprintf(`{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":"Metadata","auditID":"x","stage":"ResponseComplete","requestURI":"/api/v1/namespaces/hammer/pods","verb":%q,`+
		`"user":{"username":%q,"groups":[%q,"system:authenticated"]},"objectRef":{"resource":"pods","namespace":"hammer","name":"p","apiVersion":"v1"},"requestReceivedTimestamp":"2026-01-02T03:04:05Z"%s}`,
		verb, user, group, more) + "\n"
}

func run(t testing.TB, before, after, log string) *Report {
	t.Helper()
	r, err := New(Config{Before: hostOf(t, before), After: hostOf(t, after), Workers: 2})
	if err != nil {
		t.Fatal(err)
	}
	tally, err := auditlog.Read(context.Background(), strings.NewReader(log), auditlog.Config{Workers: 2, Each: func(w int, q *auditlog.Request) { r.Request(context.Background(), w, q) }})
	if err != nil {
		t.Fatal(err)
	}
	return r.Report(tally)
}

// TR-4: what flips is listed with its rule, and what was not recorded is undecided unless it does not matter.
func TestReplay(t *testing.T) {
	object := func(node, kind string) string {
		return fmt.Sprintf(`,"level":"RequestResponse",%q:{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p","namespace":"hammer"},"spec":{"nodeName":%q}}`, kind, node)
	}
	status := `,"level":"RequestResponse","responseObject":{"kind":"Status","apiVersion":"v1"}`
	stricter := strings.Replace(roles, `== "a"`, `== "b"`, 1)
	for _, test := range []struct {
		name, after, log string
		flips            string // before → after of the only flip
		undecided        string // reason and level of the only one
	}{
		{"nothing changes", roles, event("ann", "devs", "get", "") + event("ann", "devs", "create", ""), "", ""},
		{"a right is gone", strings.Replace(roles, "[get, list]", "[list]", 1), event("ann", "devs", "get", ""), "Yes → No", ""},
		{"and concerns nobody else", strings.Replace(roles, "[get, list]", "[list]", 1), event("bob", "ops", "get", "") + event("ann", "devs", "list", ""), "", ""},
		{"a right is new", strings.Replace(roles, "resourceKinds: [pods]}", "resourceKinds: [pods, secrets]}", 1), strings.ReplaceAll(event("ann", "devs", "get", ""), `"pods"`, `"secrets"`), "No → Yes", ""},
		{"a deny is new", strings.Replace(roles, "rules:", "rules:\n- {deny: true, verbs: [get], resourceKinds: [pods]}", 1), event("ann", "devs", "get", ""), "Yes → Denied", ""},
		{"another condition, and no body", stricter, event("ann", "devs", "create", ""), "", needsObject.Reason + needsObject.Level},
		{"the same condition, and no body", strings.Replace(roles, "[get, list]", "[list]", 1), event("ann", "devs", "create", ""), "", ""},
		{"a body that flips", stricter, event("ann", "devs", "create", object("a", "requestObject")), "Yes → No", ""},
		{"a body that is allowed now", stricter, event("ann", "devs", "create", object("b", "requestObject")), "No → Yes", ""},
		{"a body that neither allows", stricter, event("ann", "devs", "create", object("c", "requestObject")), "", ""},
		{"what was stored counts", stricter, event("ann", "devs", "create", object("c", "requestObject")+`,"responseObject":{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p","namespace":"hammer"},"spec":{"nodeName":"a"}}`), "Yes → No", ""},
		{"a delete that says what it deleted", stricter, event("ann", "devs", "delete", object("a", "responseObject")), "Yes → No", ""},
		{"a delete that does not", stricter, event("ann", "devs", "delete", status), "", needsStored.Reason},
		{"a delete at another level", stricter, event("ann", "devs", "delete", ""), "", needsResult.Reason + needsResult.Level},
		{"an update", stricter, event("ann", "devs", "update", object("a", "responseObject")), "", needsStored.Reason},
		{"a watch", stricter, event("ann", "devs", "watch", ""), "", needsRead.Reason},
		{"a body of another kind", stricter, event("ann", "devs", "create", `,"requestObject":{"apiVersion":"v1","kind":"Secret"}`), "", unreadable.Reason},
		{"a kind that nobody knows", stricter, strings.ReplaceAll(event("ann", "devs", "get", ""), `"pods"`, `"gadgets"`), "", unknownKind.Reason},
		{"a node", strings.Replace(roles, "[get, list]", "[list]", 1), event("system:node:n", "system:nodes", "get", ""), "", byNode.Reason},
		{"a path", roles, strings.Replace(event("ann", "devs", "get", ""), `"objectRef"`, `"other"`, 1), "", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := run(t, roles, test.after, test.log)
			flips, undecided := "", ""
			for _, f := range got.Flips {
				flips += fmt.Sprintf("%s → %s", f.Before, f.After)
				if f.User != "ann" || f.Count != 1 || f.First.IsZero() || f.Rule != "hammer/dev rule 0" && f.Rule != "hammer/dev rule 1" {
					t.Errorf("%+v", f)
				}
			}
			for _, u := range got.Because {
				undecided += u.Reason + u.Level
			}
			if flips != test.flips || undecided != test.undecided {
				t.Errorf("flips %q, undecided %q; want %q, %q", flips, undecided, test.flips, test.undecided)
			}
			if got.Requests != int64(strings.Count(test.log, "\n")) {
				t.Errorf("%d requests", got.Requests)
			}
		})
	}
}

// TR-4: flips are aggregated and names sampled, always the same ones.
func TestFlipsAreAggregated(t *testing.T) {
	var b strings.Builder
	for i := range 5000 {
		b.WriteString(strings.NewReplacer(`"name":"p"`, fmt.Sprintf(`"name":"p%04d"`, i), "03:04:05", fmt.Sprintf("03:%02d:%02d", i/60%60, i%60)).Replace(event("ann", "devs", "get", `,"annotations":{"authorization.k8s.io/decision":"forbid"}`)))
	}
	b.WriteString("broken\n")
	got := run(t, roles, strings.Replace(roles, "[get, list]", "[list]", 1), b.String())
	if len(got.Flips) != 1 || got.Broken != 1 || got.Otherwise != 5000 || len(got.Problems) != 1 {
		t.Fatalf("%+v", got)
	}
	if f := got.Flips[0]; f.Count != 5000 || f.Name != "p0000" || strings.Join(f.Names, " ") != "p0000 p0001 p0002 p0003 p0004" || f.First.Minute() != 0 || f.Last.Minute() != 59 {
		t.Errorf("%+v", f)
	}
}

// TR-4: replay says what deciding each request by itself says.
func TestReplayEqualsDecidingEach(t *testing.T) {
	after := strings.NewReplacer("[get, list]", "[list, patch]", `== "a"`, `!= "b"`).Replace(roles)
	hosts := [2]*offline.Host{hostOf(t, roles), hostOf(t, after)}
	for _, user := range []string{"devs", "ops"} {
		for _, verb := range []string{"get", "list", "watch", "create", "update", "patch", "delete"} {
			got := run(t, roles, after, event("ann", user, verb, ""))
			var decided [2]authorizer.Decision
			_, err := auditlog.Read(t.Context(), strings.NewReader(event("ann", user, verb, "")), auditlog.Config{Workers: 1, Each: func(_ int, q *auditlog.Request) {
				attrs := q.Attributes()
				for i, h := range hosts {
					decided[i], _, _ = h.Authorize(t.Context(), attrs)
				}
			}})
			if err != nil {
				t.Fatal(err)
			}
			flips := (decided[0] == authorizer.DecisionAllow) != (decided[1] == authorizer.DecisionAllow)
			if got.Undecided == 0 && (len(got.Flips) == 1) != flips {
				t.Errorf("%s %s: %+v, but %v", user, verb, got, decided)
			}
			if len(got.Flips) == 1 && (got.Flips[0].After == plan.Yes) != (decided[1] == authorizer.DecisionAllow) {
				t.Errorf("%s %s: %+v, but %v", user, verb, got.Flips[0], decided)
			}
		}
	}
}

// The shape that scripts rely on (TR-16).
func TestShape(t *testing.T) {
	data, err := json.Marshal(run(t, roles, strings.Replace(roles, "[get, list]", "[list]", 1), event("ann", "devs", "get", "")))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"requests":1`, `"undecided":0`, `"flips":[{"user":"ann","verb":"get","apiGroup":"","resource":"pods","namespace":"hammer","name":"p","before":"Yes","after":"No"`, `"count":1`, `"first":"2026-01-02T03:04:05Z"`, `"last":`} {
		if !strings.Contains(string(data), want) {
			t.Errorf("no %s in %s", want, data)
		}
	}
}

// BenchmarkReplay: TR-4's figures are requests a second, from a file.
func BenchmarkReplay(b *testing.B) {
	const requests = 200_000
	before, after := hostOf(b, roles), hostOf(b, strings.Replace(roles, "[get, list]", "[list]", 1))
	for _, compressed := range []bool{false, true} {
		name := filepath.Join(b.TempDir(), "log")
		file, err := os.Create(name)
		if err != nil {
			b.Fatal(err)
		}
		var out io.WriteCloser = file
		if compressed {
			out = gzip.NewWriter(file)
		}
		for i := range requests {
			if _, err := io.WriteString(out, strings.Replace(event(fmt.Sprint("user-", i%500), []string{"devs", "ops"}[i%2], []string{"get", "list", "create", "update"}[i%4], filler), `"name":"p"`, fmt.Sprintf(`"name":"p%d"`, i), 1)); err != nil {
				b.Fatal(err)
			}
		}
		if err := out.Close(); err != nil {
			b.Fatal(err)
		}
		b.Run(map[bool]string{false: "plain", true: "gzip"}[compressed], func(b *testing.B) {
			b.ReportAllocs()
			begin := processorTime(b)
			for b.Loop() {
				log, err := os.Open(name)
				if err != nil {
					b.Fatal(err)
				}
				r, err := New(Config{Before: before, After: after, Workers: 2})
				if err != nil {
					b.Fatal(err)
				}
				tally, err := auditlog.Read(b.Context(), log, auditlog.Config{Workers: 2, Each: func(w int, q *auditlog.Request) { r.Request(b.Context(), w, q) }})
				if err != nil || tally.Requests != requests || len(r.Report(tally).Flips) == 0 {
					b.Fatal(err)
				}
				_ = log.Close()
			}
			b.ReportMetric(float64(b.N)*requests/b.Elapsed().Seconds(), "requests/s")
			// On a machine that others use as well, the time of the processors says what two of them could do.
			b.ReportMetric(2*float64(b.N)*requests/(processorTime(b)-begin), "requests/s/2-cores")
		})
	}
}

// processorTime is what the process has used, in seconds.
func processorTime(b *testing.B) float64 {
	b.Helper()
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		b.Fatal(err)
	}
	return float64(used.Utime.Sec+used.Stime.Sec) + float64(used.Utime.Usec+used.Stime.Usec)/1e6
}

// filler is what an event of a real server has beside what counts.
const filler = `,"sourceIPs":["10.0.0.1"],"userAgent":"kubectl/v1.37.0 (linux/amd64) kubernetes/0000000","responseStatus":{"metadata":{},"code":200},"stageTimestamp":"2026-01-02T03:04:05.123456Z",` +
	`"annotations":{"authorization.k8s.io/decision":"allow","authorization.k8s.io/reason":"RBAC: allowed by RoleBinding \"dev/hammer\" of Role \"dev\" to Group \"devs\""}`
