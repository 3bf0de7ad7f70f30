package fieldpermissions

import (
	"errors"
	"fmt"
	"strings"

	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/internal/engine/fieldperm"
)

// ownDomain is the domain of our own API groups.
const ownDomain = "proviso.dev"

// checkHidden reports why a field of a resource cannot be hidden (HF-1); nil if it can.
func (f *rights) checkHidden(spec policyv1alpha1.FieldPermissionSpec, at fieldperm.Path, r fieldperm.Resource) error {
	if !spec.ReadExclusive {
		return nil
	}
	if r.Group == ownDomain || strings.HasSuffix(r.Group, "."+ownDomain) || r.Group == "auditregistration.k8s.io" {
		return errors.New("fields of policy cannot be hidden: say in roles who may read it")
	}
	snap := f.store.Current()
	if needed := snap.Fields.Scales(r); at.OverlapsAny(needed) {
		return fmt.Errorf("field %s cannot be hidden: the scale subresource is made of it", at)
	}
	kind, ok := servedKind(snap.Served, r)
	if !ok {
		return nil
	}
	t, ok, err := f.schemas.typeOf(kind)
	if err != nil || !ok {
		return err
	}
	return fieldperm.CheckHidden(at, t)
}
