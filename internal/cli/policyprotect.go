package cli

import (
	"context"
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/internal/analysis/evasion"
)

// protect writes a protection that stops the subjects of a deny rule from changing what the rule looks at. It is
// written before the rule: if the caller may not write it, nothing is written.
func (o *denyOptions) protect(ctx context.Context, namespace, name string, rule policyv1alpha1.PolicyRule) error {
	marks := evasion.Marks(&rule)
	if len(marks) == 0 {
		return errors.New("--protect: the rule looks at nothing of the object that an update could change")
	}
	for _, m := range marks {
		if m.Of == evasion.Field {
			return fmt.Errorf("--protect: the rule looks at %s, and a FieldPermission with exclusive: true would take it from everybody in the cluster who is not granted it; write one if that is meant, or deny update, too", m)
		}
	}
	for i, m := range marks {
		called := name
		if i > 0 {
			called = fmt.Sprintf("%s-%d", name, i+1)
		}
		if err := o.protectMark(ctx, namespace, called, m, rule.ResourceKinds); err != nil {
			return err
		}
	}
	return nil
}

// protectMark protects one label or annotation: in a namespace for its admins, and everywhere for cluster admins.
func (o *denyOptions) protectMark(ctx context.Context, namespace, name string, m evasion.Mark, kinds []string) error {
	kind := policyv1alpha1.AttributeLabel
	if m.Of == evasion.Annotation {
		kind = policyv1alpha1.AttributeAnnotation
	}
	version := policyv1alpha1.SchemeGroupVersion.String()
	role := policyv1alpha1.RoleReference{APIGroup: policyv1alpha1.PolicyRoleAPIGroup, Kind: "Role", Namespace: o.Master, Name: "admin"}
	if namespace == o.Master {
		role.Name = "cluster-admin"
		a := &policyv1alpha1.ClusterProtectedAttribute{TypeMeta: typeMeta(version, "ClusterProtectedAttribute"), ObjectMeta: metav1.ObjectMeta{Name: name},
			AttributeKind: kind, AttributeName: m.Name, Resources: kinds, RoleRef: role}
		return o.create(ctx, "clusterprotectedattributes", a, a.ObjectMeta)
	}
	a := &policyv1alpha1.ProtectedAttribute{TypeMeta: typeMeta(version, "ProtectedAttribute"), ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		AttributeKind: kind, AttributeName: m.Name, Resources: kinds, RoleRef: role}
	return o.create(ctx, "protectedattributes", a, a.ObjectMeta)
}
