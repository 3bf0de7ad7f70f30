package protectedattr

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
)

// PA-6: controllers are exempt by who they are, and by nothing that an object says.
func TestExemptIdentities(t *testing.T) {
	ix, err := New(Config{
		Protections:  []Protection{clusterLabel("env-prod", "env", releaseManagers, "prod")},
		ExemptUsers:  []string{"system:serviceaccount:flux:copier"},
		ExemptGroups: []string{"system:serviceaccounts:argo"},
	})
	if err != nil {
		t.Fatal(err)
	}
	refused := "label env=prod is protected"
	owned := podWith(kv{"env": "prod"}, nil)
	owned.OwnerReferences = []metav1.OwnerReference{{Kind: "ReplicaSet", Name: "rs", Controller: new(true)}}
	for _, tc := range []struct {
		user, group, want string
	}{
		{"system:kube-controller-manager", "", ""},
		{"system:kube-scheduler", "", ""},
		{"system:serviceaccount:kube-system:replicaset-controller", "", ""},
		{"system:serviceaccount:flux:copier", "", ""},
		{"system:serviceaccount:argo:x", "system:serviceaccounts:argo", ""},
		{"system:serviceaccount:argo:x", "", refused},
		{"system:serviceaccount:kube-system:", "", refused},
		{"system:serviceaccount:kube-system:coredns", "", refused},
		{"system:serviceaccount:kube-system:horizontal-pod-autoscaler", "", refused},
		{"system:serviceaccount:kube-systems:x", "", refused},
		{"system:serviceaccount:default:replicaset-controller", "", refused},
		{"x-system:kube-scheduler", "", refused},
		{"edgar", "system:serviceaccounts:kube-system", refused},
	} {
		req := podRequest()
		req.User, req.Groups = tc.user, []string{tc.group}
		t.Run(tc.user+" "+tc.group, func(t *testing.T) {
			expect(t, ix.Check(req, nil, owned), tc.want)
			if shown := len(ix.Conditions(req)) > 0; shown != (tc.want != "") {
				t.Errorf("conditions shown: %v", shown)
			}
		})
	}
}

// PA-6: a node is exempt for its mirror pods and for its own Node, and for nothing else.
func TestExemptNodes(t *testing.T) {
	ix := mustIndex(t, clusterLabel("env-prod", "env", releaseManagers, "prod"))
	mirror := podWith(kv{"env": "prod"}, kv{mirrorAnnotation: "hash"})
	mirror.Spec.NodeName = "n1"
	before := mirror.DeepCopy()
	before.Labels = nil
	ordinary := mirror.DeepCopy()
	ordinary.Annotations = nil
	stored := before.DeepCopy()
	stored.Annotations = nil
	node := func(name string) *corev1.Node {
		return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: kv{"env": "prod"}}}
	}
	pods := Request{Resource: "pods", Namespace: "kube-system"}
	nodes := Request{Resource: "nodes"}
	const n1, refused = "system:node:n1", "label env=prod is protected"
	for _, tc := range []struct {
		name     string
		req      Request
		user     string
		group    string
		old, new any
		want     string
	}{
		{"mirror pod", pods, n1, nodesGroup, nil, mirror, ""},
		{"mirror pod as JSON", pods, n1, nodesGroup, nil, loosely(t, mirror), ""},
		{"mirror pod, update", pods, n1, nodesGroup, before, mirror, ""},
		{"pod becomes a mirror pod", pods, n1, nodesGroup, stored, mirror, refused},
		{"another node's mirror pod", pods, "system:node:n2", nodesGroup, nil, mirror, refused},
		{"ordinary pod", pods, n1, nodesGroup, nil, ordinary, refused},
		{"user with a mirror pod", pods, "edgar", "", nil, mirror, refused},
		{"node name without the group", pods, n1, "", nil, mirror, refused},
		{"the group without a node name", pods, "system:node:", nodesGroup, nil, mirror, refused},
		{"own Node", nodes, n1, nodesGroup, nil, node("n1"), ""},
		{"own Node, update", nodes, n1, nodesGroup, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}, node("n1"), ""},
		{"another Node", nodes, n1, nodesGroup, nil, node("n2"), refused},
		{"another resource of the same name", Request{Resource: "services", Name: "n1"}, n1, nodesGroup, nil, node("n1"), refused},
		{"another group", Request{Group: "example.com", Resource: "nodes"}, n1, nodesGroup, nil, node("n1"), refused},
		{"another name in the URL", Request{Resource: "nodes", Name: "n2"}, n1, nodesGroup, nil, node("n1"), refused},
	} {
		t.Run(tc.name, func(t *testing.T) {
			req := tc.req
			req.User, req.Groups = tc.user, []string{tc.group}
			expect(t, ix.Check(&req, tc.old, tc.new), tc.want)
		})
	}
}

// PA-12: bindings to a role that a protection names are guarded where they would make a member.
func TestGuardsRole(t *testing.T) {
	ix := mustIndex(t,
		clusterLabel("env-prod", "env", releaseManagers, "prod"),
		namespaced(clusterLabel("local", "env", owners), "hammer"),
		namespaced(clusterLabel("shared", "tier", testers), "hammer"))
	for _, tc := range []struct {
		role      Role
		namespace string
		want      bool
	}{
		{releaseManagers, "", true},
		{releaseManagers, "anvil", true},
		{owners, "hammer", true},
		{Role{Kind: KindRole, Namespace: "anvil", Name: "owners"}, "anvil", false},
		{testers, "hammer", true},
		{testers, "", true},
		{testers, "anvil", false},
		{Role{Kind: KindClusterRole, Name: "view"}, "hammer", false},
		{Role{Kind: KindClusterRole, Name: "owners"}, "hammer", false},
	} {
		if got := ix.GuardsRole(tc.role, tc.namespace); got != tc.want {
			t.Errorf("binding to %v in %q: guarded %v, want %v", tc.role, tc.namespace, got, tc.want)
		}
	}
}

// PA-1: stored objects are read as they are meant, and what should never have been stored protects and has no members.
func TestFromStored(t *testing.T) {
	ref := policyv1alpha1.RoleReference{APIGroup: policyv1alpha1.RoleAPIGroup, Kind: "ClusterRole", Name: "release-managers"}
	cluster := &policyv1alpha1.ClusterProtectedAttribute{
		ObjectMeta:    metav1.ObjectMeta{Name: "env-prod"},
		AttributeKind: policyv1alpha1.AttributeLabel, AttributeName: "env", ProtectedValues: []string{"prod"}, RoleRef: ref,
	}
	local := &policyv1alpha1.ProtectedAttribute{
		ObjectMeta:    metav1.ObjectMeta{Name: "note", Namespace: "hammer"},
		AttributeKind: policyv1alpha1.AttributeAnnotation, AttributeName: "note", Scope: policyv1alpha1.ScopeObjectOnly,
		RoleRef: policyv1alpha1.RoleReference{Kind: "Role", Name: "owners"},
	}
	foreign := cluster.DeepCopy()
	foreign.Name, foreign.AttributeName, foreign.RoleRef.APIGroup = "foreign", "foreign", "example.com"
	misplaced := cluster.DeepCopy()
	misplaced.Name, misplaced.AttributeName, misplaced.RoleRef.Kind = "misplaced", "misplaced", "Role"
	ix := mustIndex(t, FromCluster(cluster), FromNamespaced(local), FromCluster(foreign), FromCluster(misplaced))

	everyone := podRequest()
	everyone.Member = func(string, Role) bool { return true }
	pod := podWith(kv{"env": "prod"}, kv{"note": "x"})
	expect(t, ix.Check(everyone, nil, pod), "")
	expect(t, ix.Check(podRequest(releaseManagers, owners), nil, pod), "")
	expect(t, ix.Check(podRequest(owners), nil, pod), `label env=prod is protected by ClusterProtectedAttribute "env-prod"`)
	expect(t, ix.Check(podRequest(releaseManagers), nil, pod), `annotation note=x is protected by ProtectedAttribute "note"; changing it requires being bound to Role "owners"`)
	expect(t, ix.Check(everyone, nil, podWith(kv{"foreign": "prod"}, nil)), "label foreign=prod is protected")
	expect(t, ix.Check(everyone, nil, podWith(kv{"misplaced": "prod"}, nil)), "label misplaced=prod is protected")
}

// PA-15: a role of Policy is of the own or of the master namespace. One of a third namespace has no members, and
// neither has a reference that validation should have refused.
func TestPolicyRoles(t *testing.T) {
	ref := func(group, kind, namespace, name string) policyv1alpha1.RoleReference {
		return policyv1alpha1.RoleReference{APIGroup: group, Kind: kind, Namespace: namespace, Name: name}
	}
	const group = policyv1alpha1.PolicyRoleAPIGroup
	for _, tc := range []struct {
		name      string
		namespace string // of the protection
		ref       policyv1alpha1.RoleReference
		want      Role
		members   bool
	}{
		{"cluster, master", "", ref(group, "Role", "master", "keepers"), Role{KindPolicyRole, "master", "keepers"}, true},
		{"cluster, another", "", ref(group, "Role", "hammer", "keepers"), Role{}, false},
		{"cluster, none", "", ref(group, "Role", "", "keepers"), Role{}, false},
		{"own, by default", "hammer", ref(group, "Role", "", "clerks"), Role{KindPolicyRole, "hammer", "clerks"}, true},
		{"own", "hammer", ref(group, "Role", "hammer", "clerks"), Role{KindPolicyRole, "hammer", "clerks"}, true},
		{"master", "hammer", ref(group, "Role", "master", "keepers"), Role{KindPolicyRole, "master", "keepers"}, true},
		{"third", "hammer", ref(group, "Role", "anvil", "keepers"), Role{}, false},
		{"kind", "hammer", ref(group, "ClusterRole", "hammer", "keepers"), Role{}, false},
		{"RBAC, own", "hammer", ref("", "Role", "hammer", "owners"), Role{KindRole, "hammer", "owners"}, true},
		{"RBAC, another", "hammer", ref("", "Role", "anvil", "owners"), Role{}, false},
		{"RBAC, cluster role with a namespace", "hammer", ref("", "ClusterRole", "hammer", "owners"), Role{}, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p := FromNamespaced(&policyv1alpha1.ProtectedAttribute{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: tc.namespace},
				AttributeKind: policyv1alpha1.AttributeLabel, AttributeName: "env", RoleRef: tc.ref})
			ix, err := New(Config{Protections: []Protection{p}, Master: "master"})
			if err != nil {
				t.Fatal(err)
			}
			var asked []Role
			req := podRequest()
			req.Namespace = "hammer"
			req.Member = func(_ string, r Role) bool { asked = append(asked, r); return true }
			if got := ix.Check(req, nil, podWith(kv{"env": "x"}, nil)).Allowed(); got != tc.members || tc.members && asked[0] != tc.want {
				t.Errorf("allowed %v, asked about %v", got, asked)
			}
			if tc.members && !ix.GuardsRole(tc.want, "hammer") {
				t.Error("its role is not guarded")
			}
		})
	}
}

// SV-8: one object of which is not clear what it protects is reported, protects what it may mean, and takes nothing
// from the others.
func TestBadProtectionIsReported(t *testing.T) {
	bad := FromCluster(&policyv1alpha1.ClusterProtectedAttribute{ObjectMeta: metav1.ObjectMeta{Name: "bad"}, AttributeKind: "Finalizer", AttributeName: "env"})
	ix, err := New(Config{Protections: []Protection{bad, clusterLabel("env-prod", "env", releaseManagers)}})
	if err == nil || ix == nil || ix.Len() != 2 {
		t.Fatalf("index %v, error %v", ix, err)
	}
	expect(t, ix.Check(podRequest(), nil, podWith(kv{"env": "x"}, nil)), "label env=x is protected")
	expect(t, ix.Check(podRequest(), nil, podWith(nil, kv{"env": "x"})), `annotation env=x is protected by ClusterProtectedAttribute "bad"`)
	expect(t, ix.Check(podRequest(), nil, podWith(kv{"free": "x"}, kv{"free": "x"})), "")
}

// SV-8: what does not even say which key it protects, protects all of them, at its own level, and yields to what is
// granted for the whole cluster. Reviews show that.
func TestUnreadableProtection(t *testing.T) {
	stub := policyv1alpha1.ProtectedAttribute{ObjectMeta: metav1.ObjectMeta{Name: "lost", Namespace: "hammer"}}
	ix, err := New(Config{Protections: []Protection{FromNamespaced(&stub)}})
	if err == nil {
		t.Fatal("nothing is reported")
	}
	local, elsewhere, wide, master := podRequest(), podRequest(), podRequest(), podRequest()
	local.Namespace, elsewhere.Namespace, wide.Namespace, master.Namespace = "hammer", "anvil", "hammer", "hammer"
	local.Everywhere, wide.Everywhere = func() bool { return false }, func() bool { return true }
	master.Groups = []string{"system:masters"}
	pod := podWith(kv{"any": "x"}, nil)
	expect(t, ix.Check(local, nil, pod), `label any=x is protected by ProtectedAttribute "lost", which cannot be read`)
	expect(t, ix.Check(local, pod, podWith(nil, nil)), `label any=x is protected by ProtectedAttribute "lost", which cannot be read`)
	expect(t, ix.Check(local, nil, podWith(nil, kv{"any": "x"})), `annotation any=x is protected by ProtectedAttribute "lost", which cannot be read`)
	if len(ix.Conditions(local)) == 0 || !ix.Touches(map[string]string{"any": "x"}, nil) {
		t.Error("reviews and bindings do not see it")
	}
	// Twins: what stays as it is, another namespace, a right for the whole cluster, system:masters.
	expect(t, ix.Check(local, pod, pod), "")
	expect(t, ix.Check(local, nil, podWith(nil, nil)), "")
	for _, req := range []*Request{elsewhere, wide, master} {
		expect(t, ix.Check(req, nil, pod), "")
		if got := ix.Conditions(req); len(got) != 0 {
			t.Errorf("conditions %v", got)
		}
	}
}

// PA-6: what is exempt is told by what can be read for certain: an object that cannot be read, or does not say whose it
// is, exempts nobody.
func TestExemptOnlyWhatCanBeRead(t *testing.T) {
	const node = "n1"
	pods := &Request{User: nodePrefix + node, Groups: []string{nodesGroup}, Resource: "pods"}
	good := map[string]any{"metadata": map[string]any{"annotations": map[string]any{mirrorAnnotation: "x"}}, "spec": map[string]any{"nodeName": node}}
	for name, c := range map[string]struct {
		old, new any
		want     bool
	}{
		"a mirror pod":                  {nil, good, true},
		"no pod":                        {nil, nil, false},
		"no pod any more":               {good, nil, false},
		"not an object":                 {nil, 7, false},
		"stored is not an object":       {7, good, false},
		"metadata of another type":      {nil, map[string]any{"metadata": "x", "spec": map[string]any{"nodeName": node}}, false},
		"annotations of another type":   {nil, map[string]any{"metadata": map[string]any{"annotations": "x"}, "spec": map[string]any{"nodeName": node}}, false},
		"an annotation of another type": {nil, map[string]any{"metadata": map[string]any{"annotations": map[string]any{mirrorAnnotation: 7}}, "spec": map[string]any{"nodeName": node}}, false},
		"no node":                       {nil, map[string]any{"metadata": map[string]any{"annotations": map[string]any{mirrorAnnotation: "x"}}}, false},
		"a node of another type":        {nil, map[string]any{"metadata": map[string]any{"annotations": map[string]any{mirrorAnnotation: "x"}}, "spec": map[string]any{"nodeName": 7}}, false},
		"a spec of another type":        {nil, map[string]any{"metadata": map[string]any{"annotations": map[string]any{mirrorAnnotation: "x"}}, "spec": 7}, false},
		"typed, not a pod":              {nil, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Annotations: kv{mirrorAnnotation: "x"}}}, false},
		"typed, without metadata":       {nil, &corev1.PodSpec{NodeName: node}, false},
	} {
		if got := IsMirrorPod(pods, c.old, c.new); got != c.want {
			t.Errorf("%s: exempt %v", name, got)
		}
	}
	ix := mustIndex(t, clusterLabel("env-prod", "env", releaseManagers, "prod"))
	named := func(name any) map[string]any {
		return map[string]any{"metadata": map[string]any{"name": name, "labels": map[string]any{"env": "prod"}}}
	}
	nodes := &Request{User: nodePrefix + node, Groups: []string{nodesGroup}, Resource: "nodes", Name: node}
	const refused = "label env=prod is protected"
	expect(t, ix.Check(nodes, nil, named(node)), "")
	expect(t, ix.Check(nodes, nil, named("n2")), refused)
	expect(t, ix.Check(nodes, nil, named(7)), refused)
	expect(t, ix.Check(nodes, map[string]any{"metadata": map[string]any{"name": "n2"}}, named(node)), refused)
	expect(t, ix.Check(nodes, map[string]any{"metadata": map[string]any{"name": node}}, named(node)), "")
	expect(t, ix.Check(&Request{User: nodePrefix + node, Groups: []string{nodesGroup}, Resource: "nodes", Name: "n2"}, nil, named(node)), refused)

	for name, c := range map[string]struct {
		req  Request
		want bool
	}{
		"masters":            {Request{User: "root", Groups: []string{"a", "system:masters"}}, true},
		"nobody":             {Request{}, false},
		"a node":             {Request{User: nodePrefix + node, Groups: []string{nodesGroup}}, false},
		"somebody":           {Request{User: "edgar", Groups: []string{"team"}}, false},
		"controller manager": {Request{User: "system:kube-controller-manager"}, true},
	} {
		if got := ix.Exempts(&c.req); got != c.want {
			t.Errorf("%s: exempt %v", name, got)
		}
	}
	var none *Index
	if none.Len() != 0 || none.GuardsRole(releaseManagers, "") || none.Touches(kv{"env": "prod"}, nil) {
		t.Error("an index that is not there protects something")
	}
	if !ix.Touches(kv{"env": "dev"}, nil) || ix.Touches(nil, kv{"env": "prod"}) || ix.Touches(kv{"x": "y"}, nil) {
		t.Error("what is touched is told wrongly")
	}
}
