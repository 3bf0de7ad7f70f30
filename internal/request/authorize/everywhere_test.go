package authorize

import (
	"testing"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"proviso.dev/proviso/internal/state/snapshot"
)

// SV-8: who has power over the whole cluster is told by what a link is. The name of a configured authorizer is free
// text: a webhook that is called node, or system-masters, has no such power.
func TestNamesGiveNoPower(t *testing.T) {
	allows := &scripted{decision: authorizer.ConditionsAwareDecisionAllow("", nil)}
	for name, c := range map[string]struct {
		link Link
		want bool
	}{
		"system:masters":                    {Link{Name: "system-masters", Authorizer: allows}, true},
		"a webhook called system-masters":   {Link{Name: "system-masters", Type: TypeWebhook, Authorizer: allows}, false},
		"the node authorizer":               {Link{Name: "node", Type: TypeNode, Authorizer: allows}, true},
		"the node authorizer, renamed":      {Link{Name: "kubelets", Type: TypeNode, Authorizer: allows}, true},
		"a webhook called node":             {Link{Name: "node", Type: TypeWebhook, Authorizer: allows}, false},
		"something of ours with that name":  {Link{Name: "node", Authorizer: allows}, false},
		"a webhook with a name of its kind": {Link{Name: "hook", Type: TypeWebhook, Authorizer: allows}, false},
	} {
		chain, err := NewChain(c.link)
		if err != nil {
			t.Fatal(err)
		}
		attrs := authorizer.AttributesRecord{User: &user.DefaultInfo{Name: "ann"}, Verb: "get", Resource: "pods", ResourceRequest: true}
		if got := chain.GrantedEverywhere(t.Context(), &snapshot.Snapshot{}, attrs); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
		if name == "a webhook called node" && c.link.GrantsAreKnown() {
			t.Errorf("%s: its grants count as known", name)
		}
	}
}
