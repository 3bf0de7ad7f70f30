package webhooks

import (
	"context"
	"fmt"

	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apiserver/pkg/authentication/user"

	"proviso.dev/proviso/internal/request/authorize"
	"proviso.dev/proviso/internal/request/requestctx"
	"proviso.dev/proviso/internal/state/snapshot"
)

// disown refuses a change of owner references by a caller who may not delete the object, where the delete depends on
// the object. The API server's plugin OwnerReferencesPermissionEnforcement asks authorization for the delete, in words
// that are those of a real one. Authorization cannot tell the two apart, and has said yes. So the condition is
// evaluated here: the object is deleted, if ever, as it was or as it will be, and both have to meet it.
func (d *Decider) disown(ctx context.Context, snap *snapshot.Snapshot, r *admissionv1.AdmissionRequest, caller user.Info) error {
	if r.Operation != admissionv1.Update || r.SubResource != "" {
		return nil // for the delete of a subresource no condition is honoured
	}
	asked := authorize.WithVerb(cases(r, caller)[0], "delete")
	if !d.cfg.Gate.Decide(requestctx.With(ctx, snap), asked).Hangs() {
		return nil // the plugin got the same answer
	}
	was, err := ownersOf(r.OldObject.Raw)
	if err != nil {
		return err
	}
	is, err := ownersOf(r.Object.Raw)
	if err != nil {
		return err
	}
	if equality.Semantic.DeepEqual(was, is) {
		return nil
	}
	for _, raw := range [][]byte{r.OldObject.Raw, r.Object.Raw} {
		deleted := *r
		deleted.Operation, deleted.OldObject, deleted.Object, deleted.Options = admissionv1.Delete, runtime.RawExtension{Raw: raw}, runtime.RawExtension{}, runtime.RawExtension{}
		attrs, err := d.attributes(&deleted, caller)
		if err != nil {
			return err
		}
		ctx := requestctx.WithNotes(requestctx.With(ctx, snap))
		requestctx.From(ctx).Put(requestctx.Request, asked, d.cfg.Gate.Decide(ctx, asked).Beside())
		err = d.cfg.Enforcer.Validate(ctx, attrs, attrs.objects)
		if attrs.err != nil {
			return fmt.Errorf("the object cannot be read: %w", attrs.err)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// ownersOf are the owner references of an object.
func ownersOf(raw []byte) ([]metav1.OwnerReference, error) {
	var object struct {
		Metadata struct {
			OwnerReferences []metav1.OwnerReference `json:"ownerReferences"`
		} `json:"metadata"`
	}
	err := json.Unmarshal(raw, &object)
	return object.Metadata.OwnerReferences, err
}
