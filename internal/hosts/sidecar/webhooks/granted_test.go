package webhooks

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
)

func grantedTo(name, verb, namespace string) authorizer.Attributes {
	return authorizer.AttributesRecord{User: &user.DefaultInfo{Name: name}, Verb: verb, Namespace: namespace, Resource: "configmaps"}
}

// SC-6: what was allowed under a condition is remembered for as long as a request can take, and then forgotten.
func TestGranted(t *testing.T) {
	now := time.Unix(0, 0)
	g := NewGranted(func() time.Time { return now })
	g.note(grantedTo("anna", "create", "a"), allowed)
	for _, at := range []struct {
		after time.Duration
		want  bool
	}{{0, true}, {grantedFor - 1, true}, {grantedFor, true}, {2*grantedFor - 1, true}, {2 * grantedFor, false}} {
		now = time.Unix(0, 0).Add(at.after)
		if got := g.has(grantedTo("anna", "create", "a"), allowed); got != at.want {
			t.Errorf("after %s: %v", at.after, got)
		}
	}
	g.note(grantedTo("anna", "create", "a"), allowed)
	if g.has(grantedTo("anna", "create", "a"), undenied) {
		t.Error("it is remembered on other terms")
	}
	for what, a := range map[string]authorizer.Attributes{"another namespace": grantedTo("anna", "create", "b"), "another verb": grantedTo("anna", "patch", "a"), "somebody else": grantedTo("zoe", "create", "a")} {
		if g.has(a, allowed) {
			t.Errorf("%s is remembered, and was not granted", what)
		}
	}
}

// SC-18: who asks about namespaces without end is remembered by the verb, and nobody else is. Users without end are all
// remembered, and hardly anybody is taken for one of them.
func TestGrantedIsBoundedForEachUser(t *testing.T) {
	g := NewGranted(time.Now)
	for i := range 10 * maxGrants {
		g.note(grantedTo("eve", "create", fmt.Sprint("n", i)), allowed)
	}
	g.note(grantedTo("otto", "create", "a"), allowed)
	if n := len(g.young.users[g.keysOf(grantedTo("eve", "", ""), allowed).user]); n > maxGrants+1 {
		t.Errorf("%d grants of one user are remembered", n)
	}
	for what, tc := range map[string]struct {
		attrs authorizer.Attributes
		want  bool
	}{
		"the first":                    {grantedTo("eve", "create", "n0"), true},
		"the last":                     {grantedTo("eve", "create", fmt.Sprint("n", 10*maxGrants-1)), true},
		"beyond the bound, the verb":   {grantedTo("eve", "create", "never-asked"), true},
		"another verb of hers":         {grantedTo("eve", "patch", "n0"), false},
		"somebody else":                {grantedTo("otto", "create", "a"), true},
		"somebody else, somewhere new": {grantedTo("otto", "create", "n0"), false},
	} {
		if got := g.has(tc.attrs, allowed); got != tc.want {
			t.Errorf("%s: %v", what, got)
		}
	}
	for i := range 3 * maxUsers {
		g.note(grantedTo(fmt.Sprint("user", i), "update", "a"), allowed)
	}
	if n := len(g.young.users); n > maxUsers {
		t.Errorf("%d users are remembered one by one", n)
	}
	mistaken := 0
	for i := range 3 * maxUsers {
		if !g.has(grantedTo(fmt.Sprint("user", i), "update", "a"), allowed) {
			t.Fatalf("user %d is forgotten", i)
		}
		if g.has(grantedTo(fmt.Sprint("stranger", i), "update", "a"), allowed) {
			mistaken++
		}
	}
	if mistaken > 3*maxUsers/20 {
		t.Errorf("%d strangers of %d are taken for others", mistaken, 3*maxUsers)
	}
}

// SC-18: text of any length costs eight bytes. A conditional right and a few hundred requests were enough to end a
// sidecar by its memory.
func TestGrantedKeepsNoText(t *testing.T) {
	g := NewGranted(time.Now)
	held := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := held()
	for i := range 100 {
		long := fmt.Sprint(i, strings.Repeat("x", 900_000))
		g.note(authorizer.AttributesRecord{User: &user.DefaultInfo{Name: "eve"}, Verb: long, Namespace: long, Resource: "configmaps", Subresource: long}, allowed)
	}
	if after := held(); after > before+5<<20 {
		t.Errorf("it holds %d kB for 100 grants", (after-before)>>10)
	}
	for i := range maxUsers {
		for j := range maxGrants {
			g.note(grantedTo(fmt.Sprint("user", i), "update", fmt.Sprint(j)), allowed)
		}
	}
	if after := held(); after > before+16<<20 {
		t.Errorf("it holds %d kB when it is full", (after-before)>>10)
	}
	runtime.KeepAlive(g)
}
