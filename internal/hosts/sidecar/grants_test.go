package sidecar

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"proviso.dev/proviso/internal/state/snapshot"
	"proviso.dev/proviso/internal/state/source"
)

var rbacKinds = map[string]string{"roles": "Role", "clusterroles": "ClusterRole", "rolebindings": "RoleBinding", "clusterrolebindings": "ClusterRoleBinding"}

// filedRoles reads roles of RBAC from files.
type filedRoles struct{ *source.Files }

func (f filedRoles) Role(_ context.Context, namespace, name string) (*rbacv1.Role, error) {
	objects, err := f.Objects(snapshot.Roles)
	if err != nil {
		return nil, err
	}
	for _, r := range snapshot.Of[*rbacv1.Role](objects) {
		if r.Namespace == namespace && r.Name == name {
			return r, nil
		}
	}
	return nil, apierrors.NewNotFound(rbacv1.Resource("roles"), name)
}

func (f filedRoles) ClusterRole(ctx context.Context, name string) (*rbacv1.ClusterRole, error) {
	all, err := f.ClusterRoles(ctx, labels.Everything())
	for i := range all {
		if all[i].Name == name {
			return &all[i], nil
		}
	}
	return nil, errors.Join(err, apierrors.NewNotFound(rbacv1.Resource("clusterroles"), name))
}

func (f filedRoles) ClusterRoles(_ context.Context, by labels.Selector) (all []rbacv1.ClusterRole, err error) {
	objects, err := f.Objects(snapshot.ClusterRoles)
	if err != nil {
		return nil, err
	}
	for _, r := range snapshot.Of[*rbacv1.ClusterRole](objects) {
		if by.Matches(labels.Set(r.Labels)) {
			all = append(all, *r)
		}
	}
	return all, nil
}

// grantPolicy: RBAC makes all of these admins, and the master policy denies secrets to some of them. The others may
// escalate or bind.
const grantPolicy = `apiVersion: authorization.proviso.dev/v1alpha1
kind: Role
metadata: {name: secretless, namespace: master}
rules: [{deny: true, verbs: [get, list, watch], resourceKinds: [secrets]}]
---
apiVersion: authorization.proviso.dev/v1alpha1
kind: RoleBinding
metadata: {name: secretless, namespace: master}
roleRef: {namespace: master, name: secretless}
userNames: [eve, esther, "system:serviceaccount:kube-system:clusterrole-aggregation-controller"]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: everything}
rules: [{apiGroups: ["*"], resources: ["*"], verbs: ["*"]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: everything}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: everything}
subjects:
- {kind: User, name: eve, apiGroup: rbac.authorization.k8s.io}
- {kind: User, name: rob, apiGroup: rbac.authorization.k8s.io}
- {kind: User, name: esther, apiGroup: rbac.authorization.k8s.io}
- {kind: User, name: "system:serviceaccount:kube-system:clusterrole-aggregation-controller", apiGroup: rbac.authorization.k8s.io}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: escalates}
rules: [{apiGroups: [rbac.authorization.k8s.io], resources: [roles, clusterroles], verbs: [escalate, bind]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: escalates}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: escalates}
subjects: [{kind: User, name: esther, apiGroup: rbac.authorization.k8s.io}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: secrets, namespace: team}
rules: [{apiGroups: [""], resources: [secrets], verbs: [get]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: pods, namespace: team}
rules: [{apiGroups: [""], resources: [pods], verbs: [get]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: secrets, labels: {gathered: here}}
rules: [{apiGroups: [""], resources: [secrets], verbs: [get]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: pods}
rules: [{apiGroups: [""], resources: [pods], verbs: [get]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: not-gathered-yet}
aggregationRule: {clusterRoleSelectors: [{matchLabels: {gathered: here}}]}
`

// rbacObject is an object of RBAC with a name, as JSON; with says what else it has.
func rbacObject(resource, name, with string) []byte {
	if with != "" {
		with = "," + with
	}
	return fmt.Appendf(nil, `{"apiVersion":"rbac.authorization.k8s.io/v1","kind":%q,"metadata":{"name":%q}%s}`, rbacKinds[resource], name, with)
}

// writesRBAC is a request and its admission.
func writesRBAC(who, verb, resource, namespace string, old, now []byte) (authorizer.AttributesRecord, *admissionv1.AdmissionRequest) {
	a := asked(who, verb, resource, namespace, "")
	if verb != "create" {
		a.Name = "x"
	}
	a.APIGroup = rbacv1.GroupName
	r := admitted(a, rbacKinds[resource], nil, nil)
	r.Kind.Group, r.Resource.Group, r.Name = rbacv1.GroupName, rbacv1.GroupName, "x"
	r.Object.Raw, r.OldObject.Raw = now, old
	return a, r
}

const (
	readsSecrets = `"rules":[{"apiGroups":[""],"resources":["secrets"],"verbs":["get"]}]`
	readsPods    = `"rules":[{"apiGroups":[""],"resources":["pods"],"verbs":["get"]}]`
)

func binds(kind, role string) string {
	return fmt.Sprintf(`"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":%q,"name":%q},"subjects":[{"kind":"ServiceAccount","name":"bot","namespace":"team"}]`, kind, role)
}

// SC-15: nobody hands out by RBAC what a deny keeps from them: by no kind of object, by no way of writing one, and by
// nothing that a controller does with it later. Holders of escalate and bind do, and so does whom nothing is denied.
func TestRBACGrantsNothingThatIsDenied(t *testing.T) {
	w := newWorld(t, grantPolicy)
	object := func(resource, with string) []byte { return rbacObject(resource, "x", with) }
	for _, tc := range []struct {
		name                      string
		verb, resource, namespace string
		old, now                  string
		// eve is whether she is let pass, to whom secrets are denied.
		eve bool
	}{
		{"a role with secrets", "create", "roles", "team", "", readsSecrets, false},
		{"a role with pods", "create", "roles", "team", "", readsPods, true},
		{"a role with everything", "create", "roles", "team", "", `"rules":[{"apiGroups":["*"],"resources":["*"],"verbs":["*"]}]`, false},
		{"a role that gets secrets", "update", "roles", "team", readsPods, readsSecrets, false},
		{"a role that gets them by a patch", "patch", "roles", "team", readsPods, readsSecrets, false},
		{"a role that loses them", "patch", "roles", "team", readsSecrets, readsPods, true},
		{"a label on a role that has them", "patch", "roles", "team", readsSecrets, readsSecrets + `,"metadata":{"name":"x","labels":{"a":"b"}}`, false},
		{"a finalizer on one that has them", "patch", "roles", "team", readsSecrets, readsSecrets + `,"metadata":{"name":"x","finalizers":["a.example.com/b"]}`, true},
		{"a cluster role with secrets", "create", "clusterroles", "", "", readsSecrets, false},
		{"a cluster role with pods", "create", "clusterroles", "", "", readsPods, true},
		{"a label that another one gathers", "patch", "clusterroles", "", readsSecrets, readsSecrets + `,"metadata":{"name":"x","labels":{"gathered":"here"}}`, false},
		{"one that gathers others", "create", "clusterroles", "", "", `"aggregationRule":{"clusterRoleSelectors":[{"matchLabels":{"gathered":"here"}}]}`, false},
		{"one that gathered others", "update", "clusterroles", "", `"aggregationRule":{"clusterRoleSelectors":[{"matchLabels":{"gathered":"here"}}]}`, readsPods, false},
		{"a binding of a role with secrets", "create", "rolebindings", "team", "", binds("Role", "secrets"), false},
		{"a binding of a role with pods", "create", "rolebindings", "team", "", binds("Role", "pods"), true},
		{"a binding of a cluster role with secrets", "create", "rolebindings", "team", "", binds("ClusterRole", "secrets"), false},
		{"a binding of a cluster role with pods", "create", "rolebindings", "team", "", binds("ClusterRole", "pods"), true},
		{"one more subject", "patch", "rolebindings", "team", strings.ReplaceAll(binds("Role", "secrets"), "bot", "other"), binds("Role", "secrets"), false},
		{"a cluster role binding with secrets", "create", "clusterrolebindings", "", "", binds("ClusterRole", "secrets"), false},
		{"a cluster role binding with pods", "create", "clusterrolebindings", "", "", binds("ClusterRole", "pods"), true},
		{"a binding of a role that will gather secrets", "create", "clusterrolebindings", "", "", binds("ClusterRole", "not-gathered-yet"), false},
		{"a deletion", "delete", "rolebindings", "team", binds("Role", "secrets"), "", true},
	} {
		var old, now []byte
		if tc.old != "" {
			old = object(tc.resource, tc.old)
		}
		if tc.now != "" {
			now = object(tc.resource, tc.now)
		}
		for who, want := range map[string]bool{"eve": tc.eve, "rob": true, "esther": true} {
			for _, dry := range []bool{false, true} {
				a, r := writesRBAC(who, tc.verb, tc.resource, tc.namespace, old, now)
				r.DryRun = &dry
				if got := w.beside(t, a, r); got != want {
					t.Errorf("%s by %s, dry run %v: %v, want %v (%v)", tc.name, who, dry, got, want, w.decider.Admit(t.Context(), r))
				}
			}
		}
	}
}

// SC-15: the aggregation controller writes what others have been checked for, into cluster roles and nothing else.
func TestAggregationControllerIsExempt(t *testing.T) {
	w := newWorld(t, grantPolicy)
	for resource, want := range map[string]bool{"clusterroles": true, "roles": false} {
		namespace := map[string]string{"roles": "team"}[resource]
		a, r := writesRBAC("system:serviceaccount:kube-system:clusterrole-aggregation-controller", "patch", resource, namespace, rbacObject(resource, "x", readsPods), rbacObject(resource, "x", readsSecrets))
		for _, err := range []error{nil, errors.New("not proven")} {
			w.proof.err = err
			if got := w.beside(t, a, r); got != want {
				t.Errorf("%s, proof %v: %v", resource, err, got)
			}
		}
	}
}

// SC-15: while nobody knows that admission is asked, those whom a deny reaches write nothing that hands out rights.
func TestRBACIsNotWrittenWithoutProof(t *testing.T) {
	w := newWorld(t, grantPolicy)
	w.proof.err = errors.New("not proven")
	for who, want := range map[string]authorizer.Decision{"eve": authorizer.DecisionDeny, "esther": authorizer.DecisionDeny, "rob": authorizer.DecisionNoOpinion} {
		for resource := range rbacKinds {
			for _, verb := range []string{"create", "update", "patch"} {
				namespace := "team"
				if strings.HasPrefix(resource, "cluster") {
					namespace = ""
				}
				a, _ := writesRBAC(who, verb, resource, namespace, nil, nil)
				if got, err := w.decider.Access(t.Context(), "c", a); err != nil || got.Decision != want {
					t.Errorf("%s %s by %s: %v, %v", verb, resource, who, got, err)
				}
			}
		}
	}
}

// SC-15: what cannot be read is refused.
func TestUnknownGrantsAreRefused(t *testing.T) {
	w := newWorld(t, grantPolicy)
	for object, want := range map[string]bool{string(rbacObject("roles", "x", readsPods)): true, `{"rules":7}`: false, `{"rules":`: false} {
		_, r := writesRBAC("eve", "create", "roles", "team", nil, []byte(object))
		if err := w.decider.Admit(t.Context(), r); (err == nil) != want {
			t.Errorf("%s: %v", object, err)
		}
	}
}
