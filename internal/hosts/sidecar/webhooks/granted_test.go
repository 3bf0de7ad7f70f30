package webhooks

import (
	"fmt"
	"testing"
	"time"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
)

// SC-6: what was allowed under a condition is remembered for as long as a request can take, then forgotten, and not
// without bounds: who asks about namespaces without end is remembered as a whole.
func TestGranted(t *testing.T) {
	now := time.Unix(0, 0)
	g := NewGranted(func() time.Time { return now })
	of := func(name, namespace string) authorizer.Attributes {
		return authorizer.AttributesRecord{User: &user.DefaultInfo{Name: name}, Namespace: namespace, Resource: "configmaps"}
	}
	g.note(of("anna", "a"))
	for _, at := range []struct {
		after time.Duration
		want  bool
	}{{0, true}, {grantedFor - 1, true}, {grantedFor, true}, {2*grantedFor - 1, true}, {2 * grantedFor, false}} {
		now = time.Unix(0, 0).Add(at.after)
		if got := g.has(of("anna", "a")); got != at.want {
			t.Errorf("after %s: %v", at.after, got)
		}
	}
	for i := range 2 * maxGrants {
		g.note(of("eve", fmt.Sprint("n", i)))
	}
	g.note(of("otto", "a"))
	if n := len(g.young); n > maxGrants+2 {
		t.Errorf("%d grants are remembered", n)
	}
	for what, a := range map[string]authorizer.Attributes{"the first": of("eve", "n0"), "the last": of("eve", fmt.Sprint("n", 2*maxGrants-1)), "somebody else": of("otto", "a")} {
		if !g.has(a) {
			t.Errorf("%s is forgotten", what)
		}
	}
	if g.has(of("anna", "a")) || g.has(of("zoe", "n0")) {
		t.Error("somebody is remembered who was granted nothing")
	}
}
