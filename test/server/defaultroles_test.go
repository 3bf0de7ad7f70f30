package server

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/client-go/discovery"
	"k8s.io/kubernetes/plugin/pkg/auth/authorizer/rbac/bootstrappolicy"

	authz "proviso.dev/proviso/api/authorization/v1alpha1"
	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/internal/engine/ruleset"
	"proviso.dev/proviso/internal/features/policies"
	"proviso.dev/proviso/internal/hosts/apiserver"
	"proviso.dev/proviso/internal/state/snapshot"
)

// PO-10: the default roles, as rights and by what they let people do.
func TestDefaultRoles(t *testing.T) {
	s := bare.get(t)
	t.Run("against RBAC", func(t *testing.T) { rolesAgainstRBAC(t, s) })
	t.Run("by effect", func(t *testing.T) { rolesByEffect(t, s) })
}

// rolesByEffect: an editor and an admin work in their namespace, and the namespace itself and what limits it are not
// theirs.
func rolesByEffect(t *testing.T, s *instance) {
	admin := newCaller(t, s.admin)
	admin.must(t, "POST", "/api/v1/namespaces", "{apiVersion: v1, kind: Namespace, metadata: {name: hammer}}")
	admin.must(t, "POST", "/api/v1/namespaces/hammer/resourcequotas", "{apiVersion: v1, kind: ResourceQuota, metadata: {name: q}, spec: {hard: {pods: '5'}}}")
	admin.must(t, "POST", "/api/v1/namespaces/hammer/limitranges", "{apiVersion: v1, kind: LimitRange, metadata: {name: l}, spec: {limits: [{type: Pod, max: {cpu: '1'}}]}}")
	admin.must(t, "POST", containersIn("hammer", "policies"), policyYAML("hammer", "default"))
	for user, role := range map[string]string{"vera": "view", "edgar": "edit", "hubert": "admin"} {
		admin.must(t, "POST", viewsIn("hammer", "rolebindings"), strings.Replace(bindingYAML(role, "master", role), "edgar", user, 1))
	}
	vera, edgar, hubert := newCaller(t, s.as("vera")), newCaller(t, s.as("edgar")), newCaller(t, s.as("hubert"))
	configMap := func(name string) string { return "{apiVersion: v1, kind: ConfigMap, metadata: {name: " + name + "}}" }
	s.await("the roles", func() (bool, error) {
		code, _, _ := hubert.do(t, "GET", "/api/v1/namespaces/hammer/secrets", "")
		return code == 200, nil
	})
	for _, c := range []*caller{edgar, hubert} {
		for _, request := range []struct{ method, path, body string }{
			{"DELETE", "/api/v1/namespaces/hammer", ""},
			{"PUT", "/api/v1/namespaces/hammer", "{apiVersion: v1, kind: Namespace, metadata: {name: hammer, labels: {pod-security.kubernetes.io/enforce: privileged}}}"},
			{"PUT", "/api/v1/namespaces/hammer/finalize", "{apiVersion: v1, kind: Namespace, metadata: {name: hammer}}"},
			{"PUT", "/api/v1/namespaces/hammer/status", "{apiVersion: v1, kind: Namespace, metadata: {name: hammer}}"},
			{"DELETE", "/api/v1/namespaces/hammer/resourcequotas/q", ""},
			{"DELETE", "/api/v1/namespaces/hammer/limitranges", ""},
			{"POST", "/api/v1/namespaces/hammer/pods/x/binding", "{apiVersion: v1, kind: Binding, metadata: {name: x}, target: {kind: Node, name: n}}"},
			{"GET", "/api/v1/nodes", ""},
			{"GET", "/api/v1/persistentvolumes", ""},
			{"DELETE", containersIn("hammer", "policies") + "/default", ""},
		} {
			if code, message, _ := c.do(t, request.method, request.path, request.body); code != 403 {
				t.Errorf("%s %s: %d %s", request.method, request.path, code, message)
			}
		}
	}
	for _, c := range []*caller{vera, edgar, hubert} {
		for _, path := range []string{"/api/v1/namespaces/hammer", "/api/v1/namespaces/hammer/resourcequotas/q", "/api/v1/namespaces/hammer/pods", "/apis/apps/v1/namespaces/hammer/deployments"} {
			c.must(t, "GET", path, "")
		}
	}
	if code, _, _ := vera.do(t, "GET", "/api/v1/namespaces/hammer/secrets", ""); code != 403 {
		t.Errorf("a viewer reads secrets: %d", code)
	}
	// Bound in the master namespace, they reach every namespace, and no custom kind that belongs to none.
	admin.must(t, "POST", viewsIn("master", "rolebindings"), strings.Replace(bindingYAML("mona", "master", "admin"), "edgar", "mona", 1))
	for kind, scope := range map[string]string{"Fleet": "Cluster", "Truck": "Namespaced"} {
		plural := strings.ToLower(kind) + "s"
		admin.must(t, "POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", "{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: "+plural+".ex.io}, spec: {group: ex.io, scope: "+scope+", names: {plural: "+plural+
			", kind: "+kind+"}, versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}]}}")
	}
	mona := newCaller(t, s.as("mona"))
	s.await("both kinds", func() (bool, error) {
		trucks, _, _ := mona.do(t, "GET", "/apis/ex.io/v1/trucks", "")
		fleets, _, _ := admin.do(t, "GET", "/apis/ex.io/v1/fleets", "")
		return trucks == 200 && fleets == 200, nil
	})
	for _, method := range []string{"GET", "DELETE"} {
		if code, message, _ := mona.do(t, method, "/apis/ex.io/v1/fleets", ""); code != 403 {
			t.Errorf("%s of a custom kind that belongs to no namespace: %d %s", method, code, message)
		}
	}
	mona.must(t, "DELETE", "/apis/ex.io/v1/namespaces/hammer/trucks", "")

	edgar.must(t, "POST", "/api/v1/namespaces/hammer/configmaps", configMap("a"))
	edgar.must(t, "DELETE", "/api/v1/namespaces/hammer/configmaps/a", "")
	for _, path := range []string{viewsIn("hammer", "roles"), viewsIn("hammer", "rolebindings"), "/apis/rbac.authorization.k8s.io/v1/namespaces/hammer/roles"} {
		if code, message, _ := edgar.do(t, "GET", path, ""); code != 403 {
			t.Errorf("an editor reads %s: %d %s", path, code, message)
		}
	}
	if code, message, _ := edgar.do(t, "POST", viewsIn("hammer", "subjectaccessreviews"),
		"{apiVersion: authorization.proviso.dev/v1alpha1, kind: SubjectAccessReview, spec: {verb: get, resourceKind: pods, userName: hubert}}"); code != 403 {
		t.Errorf("an editor asks about others: %d %s", code, message)
	}
	// The story: an admin delegates, and takes away.
	hubert.must(t, "POST", viewsIn("hammer", "roles"), roleYAML("careful", "{deny: true, verbs: [delete], resourceKinds: [configmaps], attributeRestrictions: {labelsContain: [protected]}}"))
	hubert.must(t, "POST", viewsIn("hammer", "roles"), roleYAML("labelers", "{verbs: [get, list, watch], resourceKinds: [deployments.apps]}, {verbs: [update], resourceKinds: [deployments.apps], attributeRestrictions: {fieldsMutatable: [labels]}}"))
	// PO-2, PO-12: by the names of built-in kinds and of custom ones, served or not.
	for name, kinds := range map[string]string{"pods": "pods, Pod, events", "custom": "Widget, widgets.example.com", "to-come": "DeploymentConfig, deploymentconfigs"} {
		hubert.must(t, "POST", viewsIn("hammer", "roles"), roleYAML(name, `{verbs: ["*"], resourceKinds: [`+kinds+`]}`))
	}
	if code, message, _ := hubert.do(t, "POST", viewsIn("hammer", "roles"), roleYAML("quotas", "{verbs: [delete], resourceKinds: [resourcequotas]}")); code != 403 {
		t.Errorf("an admin grants what he does not have: %d %s", code, message)
	}
}

// differences are all that tells view, edit and admin from the roles of RBAC of the same name (+ what they have more, -
// what they have less), and why. What is not here is the same. A kind or subresource that Kubernetes adds shows up as a
// difference: decide in defaultroles.go what it is.
//
// One more holds for every resource that may be updated: edit and admin have all ordinary verbs on it, not only those
// that Kubernetes knows. That is the * of the original design; nothing of Kubernetes asks for such a verb on what is in
// a namespace.
var differences = []struct{ role, rights, why string }{
	{"view", "+ widgets.example.com: get,list,watch", everything},
	{"view", "+ widgets.example.com/status: get", everything},
	{"view", "+ widgets.example.com/scale: get", everything},
	{"view", "+ podtemplates: get,list,watch", everything},
	{"view", "+ protectedattributes.policy.proviso.dev: get,list,watch", "what a refusal names can be read (PA-16)"},
	{"view", "+ leases.coordination.k8s.io: get,list,watch", everything},
	{"view", "+ pods/ephemeralcontainers: get", samePod},
	{"view", "+ pods/resize: get", samePod},

	{"edit", "+ widgets.example.com: get,list,watch,create,update,patch,delete,deletecollection", everything},
	{"edit", "+ widgets.example.com/status: get", everything},
	{"edit", "+ widgets.example.com/scale: get,update,patch", everything},
	{"edit", "+ podtemplates: get,list,watch", everything},
	{"edit", "+ protectedattributes.policy.proviso.dev: get,list,watch", "what a refusal names can be read (PA-16)"},
	{"edit", "+ pods/ephemeralcontainers: get", samePod},
	{"edit", "+ pods/resize: get", samePod},

	{"admin", "+ widgets.example.com: get,list,watch,create,update,patch,delete,deletecollection", everything},
	{"admin", "+ widgets.example.com/status: get", everything},
	{"admin", "+ widgets.example.com/scale: get,update,patch", everything},
	{"admin", "+ podtemplates: get,list,watch", everything},
	{"admin", "+ protectedattributes.policy.proviso.dev: get,list,watch", "what a refusal names can be read (PA-16)"},
	{"admin", "+ pods/ephemeralcontainers: get", samePod},
	{"admin", "+ pods/resize: get", samePod},
	{"admin", "+ roles.authorization.proviso.dev: get,list,watch,create,update,patch,delete,deletecollection,deny", delegates},
	{"admin", "+ rolebindings.authorization.proviso.dev: get,list,watch,create,update,patch,delete,deletecollection", delegates},
	{"admin", "+ resourceaccessreviews.authorization.proviso.dev: create", delegates},
	{"admin", "+ subjectaccessreviews.authorization.proviso.dev: create", delegates},
	{"admin", "+ shadowrules.authorization.proviso.dev: get,list,watch", delegates},
}

const (
	everything = "the original design: a viewer sees and an editor changes everything in the namespace, custom resources included, which RBAC has to be told of one by one"
	samePod    = "it is the pod, which a viewer can read anyway"
	delegates  = "the original design's story: an admin writes roles and role bindings, asks who can, and writes roles that deny"
)

// rolesAgainstRBAC compares the roles on everything that the server serves, on custom resources, and with verbs of all
// sorts, bound in one namespace and bound in the whole cluster.
func rolesAgainstRBAC(t *testing.T, s *instance) {
	_, lists, err := discovery.NewDiscoveryClientForConfigOrDie(s.admin).ServerGroupsAndResources()
	if err != nil {
		t.Fatal(err)
	}
	lists = append(lists, &metav1.APIResourceList{GroupVersion: "example.com/v1", APIResources: []metav1.APIResource{
		{Name: "widgets", Kind: "Widget", Namespaced: true, Verbs: bootstrappolicy.ReadWrite},
		{Name: "widgets/status", Kind: "Widget", Namespaced: true, Verbs: []string{"get", "update", "patch"}},
		{Name: "widgets/scale", Kind: "Scale", Namespaced: true, Verbs: []string{"get", "update", "patch"}}}})
	ix := ruleset.Build(bothRoles(lists))
	wider, narrower := map[string]map[string]bool{}, map[string]map[string]bool{}
	for _, list := range lists {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range list.APIResources {
			compareRoles(t, ix, gv.Group, r, wider, narrower)
		}
	}
	var got, want []string
	for sign, side := range map[string]map[string]map[string]bool{"+": wider, "-": narrower} {
		for what, verbs := range side {
			has := slices.DeleteFunc(slices.Clone(verbsOfAllSorts), func(v string) bool { return !verbs[v] })
			got = append(got, sign+" "+what+": "+strings.Join(has, ","))
		}
	}
	for _, d := range differences {
		if d.why == "" {
			t.Errorf("%s: %s: no reason", d.role, d.rights)
		}
		want = append(want, strings.Replace(d.rights, " ", " "+d.role+" ", 1))
	}
	slices.Sort(got)
	slices.Sort(want)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("differences from RBAC, without a reason (-) or no more (+):\n%s", diff)
	}
}

// compareRoles notes what the roles of Policy have more and less on one resource, bound in a namespace, or for what has
// none, everywhere.
func compareRoles(t *testing.T, ix *ruleset.Index, group string, r metav1.APIResource, wider, narrower map[string]map[string]bool) {
	resource, sub, _ := strings.Cut(r.Name, "/")
	what := schema.GroupResource{Group: group, Resource: resource}.String()
	if sub != "" {
		what += "/" + sub
	}
	for _, role := range []string{"view", "edit", "admin"} {
		may := func(who, verb, namespace string) bool {
			return ix.Decide(authorizer.AttributesRecord{User: &user.DefaultInfo{Name: who + role}, Verb: verb, Namespace: namespace,
				APIGroup: group, Resource: resource, Subresource: sub, ResourceRequest: true}).Certainty == ruleset.Always
		}
		for _, verb := range verbsOfAllSorts {
			views := group == authz.GroupName && r.Kind != "ResourceAccessReview" && r.Kind != "SubjectAccessReview"
			if slices.Contains(bootstrappolicy.ReadWrite, verb) && !slices.Contains(r.Verbs, verb) && !views {
				continue // nobody can do that
			}
			ours, theirs := may("everywhere-", verb, ""), may("rbac-everywhere-", verb, "")
			if r.Namespaced || resource == "namespaces" {
				local := may("local-", verb, "hammer")
				if local != ours {
					t.Errorf("%s, %s %s: bound in a namespace %v, bound everywhere %v", role, verb, what, local, ours)
				}
			}
			if (verb == "granular" || verb == "frobnicate") && ours && may("everywhere-", "update", "") {
				continue // see differences
			}
			side := narrower
			switch {
			case ours == theirs:
				continue
			case ours:
				side = wider
			}
			if side[role+" "+what] == nil {
				side[role+" "+what] = map[string]bool{}
			}
			side[role+" "+what][verb] = true
		}
	}
}

var verbsOfAllSorts = []string{"get", "list", "watch", "create", "update", "patch", "delete", "deletecollection", "impersonate", "escalate", "bind", "deny",
	"granular", "granular:labels", "unsafe-delete-ignore-read-errors", "frobnicate"}

// bothRoles binds the default roles of Policy and those of RBAC, each to a user of its own, in a namespace and
// everywhere.
func bothRoles(lists []*metav1.APIResourceList) ruleset.Input {
	policy := &policyv1alpha1.Policy{ObjectMeta: metav1.ObjectMeta{Namespace: "master", Name: policyv1alpha1.PolicyName}, Roles: map[string]policyv1alpha1.PolicyRole{}}
	local := &policyv1alpha1.PolicyBinding{ObjectMeta: metav1.ObjectMeta{Namespace: "hammer", Name: "master"}, RoleBindings: map[string]policyv1alpha1.PolicyRoleBinding{}}
	everywhere := &policyv1alpha1.PolicyBinding{ObjectMeta: metav1.ObjectMeta{Namespace: "master", Name: "master"}, RoleBindings: map[string]policyv1alpha1.PolicyRoleBinding{}}
	in := ruleset.Input{MasterNamespace: "master", Kinds: localKinds(lists), Policies: []*policyv1alpha1.Policy{policy},
		PolicyBindings: []*policyv1alpha1.PolicyBinding{local, everywhere}}
	for name, rules := range policies.DefaultRoles() {
		policy.Roles[name] = policyv1alpha1.PolicyRole{Rules: rules}
		local.RoleBindings[name] = policyv1alpha1.PolicyRoleBinding{RoleName: name, UserNames: []string{"local-" + name}}
		everywhere.RoleBindings[name] = policyv1alpha1.PolicyRoleBinding{RoleName: name, UserNames: []string{"everywhere-" + name}}
	}
	for _, name := range []string{"view", "edit", "admin"} {
		in.ClusterRoles = append(in.ClusterRoles, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: aggregated(name)})
		ref := rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name}
		subject := func(prefix string) []rbacv1.Subject {
			return []rbacv1.Subject{{Kind: "User", Name: "rbac-" + prefix + name}}
		}
		in.RoleBindings = append(in.RoleBindings, &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: "hammer", Name: name}, RoleRef: ref, Subjects: subject("local-")})
		in.ClusterRoleBindings = append(in.ClusterRoleBindings, &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: name}, RoleRef: ref, Subjects: subject("everywhere-")})
	}
	return in
}

// localKinds is what discovery lists, with everything of Kubernetes and of ours as built in.
func localKinds(lists []*metav1.APIResourceList) *ruleset.Kinds {
	from := snapshot.Sources{Reserved: apiserver.Kinds().Reserved}
	for _, list := range lists {
		if gv, err := schema.ParseGroupVersion(list.GroupVersion); err == nil && strings.HasSuffix(gv.Group, "example.com") {
			from.Custom = append(from.Custom, list)
		} else {
			from.Local = append(from.Local, list)
		}
	}
	return from.Served().Kinds()
}

// aggregated are the rules of one of RBAC's default roles, with all that is gathered in it.
func aggregated(name string) (rules []rbacv1.PolicyRule) {
	all := bootstrappolicy.ClusterRoles()
	i := slices.IndexFunc(all, func(r rbacv1.ClusterRole) bool { return r.Name == name })
	if i < 0 {
		panic(fmt.Sprintf("Kubernetes has no cluster role %s any more", name))
	}
	rules = append(rules, all[i].Rules...)
	if all[i].AggregationRule == nil {
		return rules
	}
	for _, s := range all[i].AggregationRule.ClusterRoleSelectors {
		for _, r := range all {
			if labels.SelectorFromSet(s.MatchLabels).Matches(labels.Set(r.Labels)) {
				rules = append(rules, aggregated(r.Name)...)
			}
		}
	}
	return rules
}
