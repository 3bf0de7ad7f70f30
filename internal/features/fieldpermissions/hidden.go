package fieldpermissions

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/internal/apis/policyreview"
	"proviso.dev/proviso/internal/engine/fieldperm"
)

// ownDomain is the domain of our own API groups.
const ownDomain = "proviso.dev"

// WarnOfHidden implements registry.FieldPermissions: it counts those who may get objects with the field, and will not
// see it without a further right (HF-1).
func (f *rights) WarnOfHidden(ctx context.Context, spec policyv1alpha1.FieldPermissionSpec) (warnings []string) {
	verb := fieldperm.RevealPrefix + spec.Permission
	for _, name := range spec.Resources {
		r, err := fieldperm.ParseResource(name)
		if err != nil || r.All() {
			continue
		}
		who, all := policyreview.Blinded(ctx, f.gate, f.store.Current(), r, verb)
		if len(who) == 0 && all {
			continue
		}
		count := strconv.Itoa(len(who))
		if !all {
			count = "more than " + count
		}
		warnings = append(warnings, fmt.Sprintf("%s users and groups may get %s and do not hold %s, by which they see %s", count, r, verb, spec.Field))
	}
	return warnings
}

// checkHidden reports why a field of a resource cannot be hidden (HF-1); nil if it can.
func (f *rights) checkHidden(spec policyv1alpha1.FieldPermissionSpec, at fieldperm.Path, r fieldperm.Resource) error {
	if !spec.ReadExclusive {
		return nil
	}
	if r.Group == ownDomain || strings.HasSuffix(r.Group, "."+ownDomain) || r.Group == "auditregistration.k8s.io" {
		return errors.New("fields of policy cannot be hidden: say in roles who may read it")
	}
	snap := f.store.Current()
	if at.OverlapsAny(snap.Fields.ShownInScale(r)) {
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
