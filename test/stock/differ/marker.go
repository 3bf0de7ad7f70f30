package differ

import (
	"context"
	"fmt"
	"net/http"
	"strings"
)

// Marker is a request whose answer says that a source of policy is known: it was written last, and says something else
// in every world.
type Marker struct {
	request *Request
	want    func(answer) bool
}

func (m Marker) String() string { return m.request.String() }

// Holds asks.
func (m Marker) Holds(ctx context.Context, e End) (bool, error) {
	a, err := e.send(ctx, m.request)
	return err == nil && m.want(a), err
}

// mark writes what markers ask about: for each namespace a role and a binding of Policy, and for one of them and for
// the cluster a role and a binding of RBAC.
func (w *World) mark() {
	w.markPolicy()
	id := fmt.Sprintf("w%d", w.seed)
	for _, of := range []struct{ role, in, user string }{{"Role", `"namespace":"team",`, id + "-role"}, {"ClusterRole", "", id + "-cluster"}} {
		w.add(`{"apiVersion":"rbac.authorization.k8s.io/v1","kind":%q,"metadata":{%s"name":"marker"},"rules":[{"apiGroups":[""],"resources":["configmaps"],"verbs":["get"],"resourceNames":[%q]},
			{"apiGroups":[""],"resources":["configmaps"],"verbs":["create","granular","granular:label(%s.example.com)"]}]}`, of.role, of.in, id, id)
		w.add(`{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"%[1]sBinding","metadata":{%[2]s"name":"marker"},"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":%[1]q,"name":"marker"},
			"subjects":[{"apiGroup":"rbac.authorization.k8s.io","kind":"User","name":%[3]q}]}`, of.role, of.in, of.user)
	}
}

// markPolicy writes what markers of Policy ask about.
func (w *World) markPolicy() {
	id := fmt.Sprintf("w%d", w.seed)
	for _, n := range append([]string{"master"}, namespaces...) {
		w.add(`{"apiVersion":"authorization.proviso.dev/v1alpha1","kind":"Role","metadata":{"name":"marker","namespace":%q},"rules":[{"verbs":["get"],"resourceKinds":["configmaps"],"resourceNames":[%q]}]}`, n, id)
		w.add(`{"apiVersion":"authorization.proviso.dev/v1alpha1","kind":"RoleBinding","metadata":{"name":"marker","namespace":%[1]q},"roleRef":{"namespace":%[1]q,"name":"marker"},"userNames":["%[2]s-%[1]s"]}`, n, id)
	}
}

// Markers are what has to hold before a world can be compared.
func (w *World) Markers() (all []Marker) {
	if w.managed {
		return w.policyMarkers(false)
	}
	id := fmt.Sprintf("w%d", w.seed)
	const team = "/api/v1/namespaces/team/configmaps"
	missing := func(a answer) bool { return a.code == http.StatusNotFound }
	for _, n := range append([]string{"master"}, namespaces...) {
		place := n
		if n == "master" {
			place = "other" // where it holds as everywhere
		}
		all = append(all, Marker{&Request{User: id + "-" + n, Method: http.MethodGet, Path: "/api/v1/namespaces/" + place + "/configmaps/" + id}, missing})
	}
	for _, user := range []string{id + "-role", id + "-cluster"} {
		all = append(all, Marker{&Request{User: user, Method: http.MethodGet, Path: team + "/" + id}, missing},
			// A stock server knows nothing of these: the sidecar decides by what it has read of RBAC.
			Marker{&Request{User: user, Method: http.MethodPatch, Path: team + "/small?dryRun=All", ContentType: asMerge, Body: fmt.Sprintf(`{"metadata":{"labels":{"%s.example.com/x":"1"}}}`, id)},
				func(a answer) bool { return a.code/100 == 2 }})
	}
	for _, label := range []string{"owner", "tier"} {
		all = append(all, Marker{&Request{User: id + "-role", Method: http.MethodPost, Path: team + "?dryRun=All", Body: fmt.Sprintf(`{"metadata":{"name":"new","labels":{%q:"x"}}}`, label)},
			func(a answer) bool { return a.code == http.StatusForbidden && strings.Contains(a.message, label) }})
	}
	return all
}
