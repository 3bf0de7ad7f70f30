package enforce

import (
	"context"
	"errors"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"

	authz "proviso.dev/proviso/api/authorization/v1alpha1"
	policy "proviso.dev/proviso/api/policy/v1alpha1"
)

type needFunc func(ctx context.Context, dryRun bool) error

func (f needFunc) Need(ctx context.Context, dryRun bool) error { return f(ctx, dryRun) }

// TR-6: what is not enforced is stored only if every replica knows that there is such a thing; what is enforced always.
func TestKnowing(t *testing.T) {
	role := func(e policy.Enforcement) runtime.Object {
		return &authz.Role{Rules: []policy.PolicyRule{{Verbs: []string{"get"}}, {Verbs: []string{"list"}, Enforcement: e}}}
	}
	for _, e := range []policy.Enforcement{"", policy.EnforcementEnforce, policy.EnforcementWarn, policy.EnforcementShadow} {
		whole := &policy.Policy{Roles: map[string]policy.PolicyRole{"a": {}, "b": {Rules: role(e).(*authz.Role).Rules}}}
		for _, o := range []runtime.Object{role(e), whole, &policy.ProtectedAttribute{Enforcement: e}, &policy.ClusterProtectedAttribute{Enforcement: e},
			&policy.FieldPermission{Spec: policy.FieldPermissionSpec{Enforcement: e}}} {
			for _, op := range []admission.Operation{admission.Create, admission.Update} {
				attrs := admission.NewAttributesRecord(o, nil, schema.GroupVersionKind{}, "n", "x", schema.GroupVersionResource{Resource: "things"}, "", op, nil, true, nil)
				asked := 0
				k := Knowing{Replicas: needFunc(func(_ context.Context, dryRun bool) error {
					if asked++; !dryRun {
						t.Error("it was a dry run")
					}
					return errors.New("host-b does not know them")
				})}
				err := k.Validate(t.Context(), attrs, nil)
				if e.Shadowed() != (asked == 1) || e.Shadowed() != (apierrors.IsConflict(err) && strings.Contains(err.Error(), "host-b")) {
					t.Errorf("%T %q: asked %d times, %v", o, e, asked, err)
				}
				alone := Knowing{Replicas: needFunc(func(context.Context, bool) error { return nil })}
				if err := alone.Validate(t.Context(), attrs, nil); err != nil {
					t.Errorf("replicas that know them: %v", err)
				}
			}
		}
	}
	if (Knowing{}).Handles(admission.Delete) {
		t.Error("whatever there is can be deleted")
	}
}
