package rbacstorage

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/kubernetes/pkg/apis/rbac"
	upstreamv1 "k8s.io/kubernetes/pkg/apis/rbac/v1"
	"k8s.io/kubernetes/pkg/apis/rbac/validation"

	"proviso.dev/proviso/internal/apis/registry/validate"
	"proviso.dev/proviso/internal/state/source"
)

// said are errors without what upstream notes beside them.
func said(errs field.ErrorList) (out []string) {
	for _, e := range errs {
		out = append(out, fmt.Sprintf("%s %s %q %s", e.Type, e.Field, fmt.Sprint(e.BadValue), e.Detail))
	}
	slices.Sort(out)
	return out
}

// TR-2: what plan says that a server would reject of RBAC is what upstream's validation says, on random objects.
func TestChecksOfRBACAreUpstreams(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	one := func(of ...string) string { return of[r.IntN(len(of))] }
	some := func(of ...string) (out []string) {
		for range r.IntN(3) {
			out = append(out, one(of...))
		}
		return out
	}
	meta := func() metav1.ObjectMeta {
		return metav1.ObjectMeta{Name: one("a", "a", "a", "", "a/b", "..", "A:b", "x%y"), Namespace: one("n", "n", "", "N_"), Labels: map[string]string{one("a", "a b"): one("x", "y z")}}
	}
	rules := func() (out []rbacv1.PolicyRule) {
		for range r.IntN(3) {
			out = append(out, rbacv1.PolicyRule{Verbs: some("get", "*"), APIGroups: some("", "apps"), Resources: some("pods", "*"), ResourceNames: some("x"), NonResourceURLs: some("/x", "*")})
		}
		return out
	}
	ref := func() rbacv1.RoleRef {
		return rbacv1.RoleRef{APIGroup: one("", rbacv1.GroupName, "apps"), Kind: one("Role", "ClusterRole", "Robot", ""), Name: one("r", "r", "", "a/b")}
	}
	subjects := func() (out []rbacv1.Subject) {
		for range r.IntN(3) {
			out = append(out, rbacv1.Subject{Kind: one("User", "Group", "ServiceAccount", "Robot", ""), APIGroup: one("", "", rbacv1.GroupName, "apps"), Name: one("u", "", "U_", "a:b"), Namespace: one("", "n")})
		}
		return out
	}
	rejected := 0
	check := func(object any, got, want field.ErrorList) {
		t.Helper()
		if len(want) > 0 {
			rejected++
		}
		if !slices.Equal(said(got), said(want)) {
			t.Fatalf("%+v:\n%q\nwant\n%q", object, said(got), said(want))
		}
	}
	do := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	const tries = 5000
	for range tries {
		role, hub := &rbacv1.Role{ObjectMeta: meta(), Rules: rules()}, &rbac.Role{}
		do(upstreamv1.Convert_v1_Role_To_rbac_Role(role, hub, nil))
		check(role, validate.RBACRole(role), validation.ValidateRole(hub))

		cluster, clusterHub := &rbacv1.ClusterRole{ObjectMeta: meta(), Rules: rules()}, &rbac.ClusterRole{}
		if r.IntN(2) == 0 {
			cluster.AggregationRule = &rbacv1.AggregationRule{}
			for range r.IntN(3) {
				cluster.AggregationRule.ClusterRoleSelectors = append(cluster.AggregationRule.ClusterRoleSelectors, metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"},
					MatchExpressions: []metav1.LabelSelectorRequirement{{Key: one("k", "k"), Operator: metav1.LabelSelectorOperator(one("In", "Exists")), Values: []string{"v"}[:r.IntN(2)]}}})
			}
		}
		do(upstreamv1.Convert_v1_ClusterRole_To_rbac_ClusterRole(cluster, clusterHub, nil))
		want := slices.DeleteFunc(validation.ValidateClusterRole(clusterHub, validation.ClusterRoleValidationOptions{}), func(e *field.Error) bool { return e.Detail == "invalid label selector." }) // it says the same again
		check(cluster, validate.RBACClusterRole(cluster), want)

		bindings, hubs := [2]*rbacv1.RoleBinding{}, [2]*rbac.RoleBinding{{}, {}}
		clusterBindings, clusterHubs := [2]*rbacv1.ClusterRoleBinding{}, [2]*rbac.ClusterRoleBinding{{}, {}}
		for i := range 2 {
			bindings[i] = &rbacv1.RoleBinding{ObjectMeta: meta(), RoleRef: ref(), Subjects: subjects()}
			clusterBindings[i] = &rbacv1.ClusterRoleBinding{ObjectMeta: bindings[i].ObjectMeta, RoleRef: bindings[i].RoleRef, Subjects: slices.Clone(bindings[i].Subjects)}
			theirs, theirCluster := bindings[i].DeepCopy(), clusterBindings[i].DeepCopy()
			upstreamv1.SetObjectDefaults_RoleBinding(theirs)
			upstreamv1.SetObjectDefaults_ClusterRoleBinding(theirCluster)
			source.DefaultRBAC(bindings[i])
			source.DefaultRBAC(clusterBindings[i])
			do(upstreamv1.Convert_v1_RoleBinding_To_rbac_RoleBinding(theirs, hubs[i], nil))
			do(upstreamv1.Convert_v1_ClusterRoleBinding_To_rbac_ClusterRoleBinding(theirCluster, clusterHubs[i], nil))
		}
		check(bindings[1], validate.RBACRoleBinding(bindings[1], nil), validation.ValidateRoleBinding(hubs[1]))
		check(clusterBindings[1], validate.RBACClusterRoleBinding(clusterBindings[1], nil), validation.ValidateClusterRoleBinding(clusterHubs[1]))
		refOf := func(errs field.ErrorList) field.ErrorList { // the rest is about metadata that nobody writes
			return slices.DeleteFunc(errs, func(e *field.Error) bool { return e.Field != "roleRef" })
		}
		check(bindings, refOf(validate.RBACRoleBinding(bindings[1], bindings[0])), refOf(validation.ValidateRoleBindingUpdate(hubs[1], hubs[0])))
		check(clusterBindings, refOf(validate.RBACClusterRoleBinding(clusterBindings[1], clusterBindings[0])), refOf(validation.ValidateClusterRoleBindingUpdate(clusterHubs[1], clusterHubs[0])))
	}
	if rejected < tries || rejected > 6*tries-tries/10 {
		t.Errorf("%d of %d are rejected: nothing is tested", rejected, 6*tries)
	}
}
