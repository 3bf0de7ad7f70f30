package etcdbackup

import (
	"path/filepath"
	"strings"
	"testing"

	"proviso.dev/proviso/internal/state/policycodec"
)

const (
	understoodRole = `{"apiVersion":"policy.proviso.dev/v1alpha1","kind":"Policy","metadata":{"name":"default","namespace":"NS"},"roles":{"dev":{"rules":[RULE]}}}`
	understoodRule = `{"verbs":["get"],"resourceKinds":["pods"]}`
)

// OP-4: what a release does not understand is found before it serves, by name; what it understands is not reported.
func TestCheckFindsWhatIsNotUnderstood(t *testing.T) {
	dir := shortDir(t)
	e := begin(t, dir)
	put := func(key, value string) {
		t.Helper()
		if _, err := e.Put(t.Context(), key, value); err != nil {
			t.Fatal(err)
		}
	}
	in := func(namespace, rule string) string {
		return strings.NewReplacer("NS", namespace, "RULE", rule).Replace(understoodRole)
	}
	policy := func(namespace, rule string) {
		put("/registry/policy.proviso.dev/policies/"+namespace+"/default", in(namespace, rule))
	}
	policy("good", understoodRule)
	put("/registry/policy.proviso.dev/fieldpermissions/one", `{"apiVersion":"policy.proviso.dev/v1alpha1","kind":"FieldPermission","metadata":{"name":"one"},"spec":{"resources":["pods"],"field":".spec.x","permission":"a.b/c"}}`)
	put("/registry/secrets/good/one", "not ours") // nobody looks at it
	for _, args := range [][]string{{"check", "--data-dir", dir}, {"check", "--data-dir", dir, "-o", "json"}} {
		out, _, err := run(args...)
		if err != nil || !strings.Contains(out, "2") || strings.Contains(out, "default") {
			t.Fatalf("%v of what is understood: %v\n%s", args, err, out)
		}
	}

	policy("newer", `{"verbs":["get"],"resourceKinds":["pods"],"onWeekdays":true}`)
	put("/registry/policy.proviso.dev/policies/garbage/default", "\x00\xff")
	put("/registry/policy.proviso.dev/policies/moved/default", in("elsewhere", understoodRule))
	put("/registry/policy.proviso.dev/protectedattributes/v2/one", `{"apiVersion":"policy.proviso.dev/v9","kind":"ProtectedAttribute","metadata":{"name":"one","namespace":"v2"}}`)
	put("/registry/auditregistration.k8s.io/auditsinks/more", `{"apiVersion":"auditregistration.k8s.io/v1alpha1","kind":"AuditSink","metadata":{"name":"more"},"spec":{"policy":{"level":"None"},"sampling":5}}`)
	put("/registry/policy.proviso.dev/policies/sealed/default", "k8s:enc:aescbc:v1:key1:…")
	policy("gone", `{"onWeekdays":true}`)
	if _, err := e.Delete(t.Context(), "/registry/policy.proviso.dev/policies/gone/default"); err != nil {
		t.Fatal(err)
	}
	found := func(out string, err error) {
		t.Helper()
		if err == nil || !strings.Contains(err.Error(), "cannot read 5 of 8 stored objects") {
			t.Errorf("check: %v\n%s", err, out)
		}
		for _, want := range []string{`policies.policy.proviso.dev newer/default: role "dev", rule 0: unknown onWeekdays`, "policies.policy.proviso.dev garbage/default: ",
			"policies.policy.proviso.dev moved/default: ", "protectedattributes.policy.proviso.dev v2/one: ", "auditsinks.auditregistration.k8s.io more: ", "1 objects are encrypted"} {
			if !strings.Contains(out, want) {
				t.Errorf("check does not say %q:\n%s", want, out)
			}
		}
		for _, never := range []string{"good", "gone", "sealed"} {
			if strings.Contains(out, never) {
				t.Errorf("check names %s:\n%s", never, out)
			}
		}
	}
	out, _, err := run("check", "--data-dir", dir) // the server runs
	found(out, err)
	file := filepath.Join(t.TempDir(), "backup.db")
	if _, _, err := run("save", file, "--data-dir", dir); err != nil {
		t.Fatal(err)
	}
	e.stop()
	out, _, err = run("check", file)
	found(out, err)
	out, _, err = run("check", "--data-dir", dir) // it does not
	found(out, err)
	if _, _, err := run("check", filepath.Join(dir, "no-such.db")); err == nil {
		t.Error("a file that does not exist was checked")
	}
	if kinds := policycodec.StoredKinds(); len(kinds) != 12 {
		t.Errorf("%d kinds are checked", len(kinds))
	}
}

// OP-4: the policy of a sidecar is stored below another prefix, and is found there without a flag.
func TestCheckOfASidecar(t *testing.T) {
	dir := shortDir(t)
	e := begin(t, dir)
	text := strings.NewReplacer("NS", "newer", "RULE", `{"verbs":["get"],"resourceKinds":["pods"],"onWeekdays":true}`).Replace(understoodRole)
	if _, err := e.Put(t.Context(), "/proviso/policy.proviso.dev/policies/newer/default", text); err != nil {
		t.Fatal(err)
	}
	const problem = `policies.policy.proviso.dev newer/default: role "dev", rule 0: unknown onWeekdays`
	for _, args := range [][]string{{}, {"--etcd-prefix", "/proviso"}, {"--etcd-prefix", "/proviso/"}} {
		out, _, err := run(append([]string{"check", "--data-dir", dir}, args...)...)
		if err == nil || !strings.Contains(err.Error(), "cannot read 1 of 1 stored objects") || !strings.Contains(out, problem) {
			t.Errorf("%v: %v\n%s", args, err, out)
		}
	}
	if out, _, err := run("check", "--data-dir", dir, "--etcd-prefix", "/registry"); err == nil || !strings.Contains(err.Error(), "no policy is stored below it, but below /proviso;") {
		t.Errorf("another prefix: %v\n%s", err, out)
	}

	// A server that has both checks both.
	if _, err := e.Put(t.Context(), "/registry/policy.proviso.dev/policies/good/default", strings.NewReplacer("NS", "good", "RULE", understoodRule).Replace(understoodRole)); err != nil {
		t.Fatal(err)
	}
	if out, _, err := run("check", "--data-dir", dir); err == nil || !strings.Contains(err.Error(), "cannot read 1 of 2 stored objects") || !strings.Contains(out, problem) {
		t.Errorf("both: %v\n%s", err, out)
	}
	if out, _, err := run("check", "--data-dir", dir, "--etcd-prefix", "/registry"); err != nil || !strings.Contains(out, "1 objects of Proviso's kinds, 0 of them unreadable") {
		t.Errorf("one of both: %v\n%s", err, out)
	}
}
