package fieldfilter

import (
	"context"
	"errors"
	"fmt"
	"reflect"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"proviso.dev/proviso/internal/engine/fieldperm"
	"proviso.dev/proviso/internal/engine/hiddenfield"
	"proviso.dev/proviso/internal/request/authorize"
	"proviso.dev/proviso/internal/request/readfilter"
	"proviso.dev/proviso/internal/request/requestctx"
)

// RestoreName is the name of the stage in admission.
const RestoreName = "HiddenFields"

// Restorer is the first stage of mutating admission: it restores what the author of a write does not see, and removes
// the annotation that says what is hidden.
func (f *Filters) Restorer() admission.MutationInterface { return restorer{f} }

type restorer struct{ filters *Filters }

// Handles implements admission.Interface.
func (restorer) Handles(operation admission.Operation) bool {
	return operation == admission.Create || operation == admission.Update
}

// Admit implements admission.MutationInterface.
func (r restorer) Admit(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	holder := requestctx.From(ctx)
	if holder == nil || holder.Snapshot == nil || !holder.Snapshot.Fields.HidesAny() || a.GetObject() == nil {
		return nil
	}
	if own := holder.Snapshot.Served.OwnKind(a.GetResource().GroupResource()); own != "" && a.GetKind().Kind != own {
		return nil // a stand-in, which does not have the fields
	}
	s := r.filters.sightOf(ctx)
	if s == nil || resourceOf(s.attrs) != a.GetResource().GroupResource() || a.GetOperation() != admission.Update || a.GetOldObject() == nil {
		return unmark(a.GetObject())
	}
	err := s.restore(ctx, a)
	if err != nil {
		refusals(ctx).said[messageOf(err)] = true
	}
	return err
}

func messageOf(err error) string {
	var status apierrors.APIStatus
	if errors.As(err, &status) {
		return status.Status().Message
	}
	return err.Error()
}

func unmark(o runtime.Object) error {
	if m, err := meta.Accessor(o); err == nil {
		hiddenfield.Unmark(m)
	}
	return nil
}

// restore restores the hidden fields of the stored object.
func (s *sight) restore(ctx context.Context, a admission.Attributes) error {
	by := s.filters.schemeOf(resourceOf(s.attrs))
	stored := a.GetOldObject().DeepCopyObject() // the new object must own what is restored
	hidden := s.of(stored, by.converter())
	if len(hidden) == 0 {
		return unmark(a.GetObject())
	}
	old, new, back, err := s.pair(stored, a.GetObject(), by)
	if err != nil {
		return s.refuse(err)
	}
	if p := patchOf(ctx); p != nil && p.applies {
		before, after := managersOf(old), managersOf(new)
		// The first apply to an object without managers makes all stored fields those of one manager.
		first := len(before) == 0 && (len(hidden.AppliedBy(p.manager, after)) > 0 || hiddenfield.AppliesApplied(p.manager, after))
		if first || hidden.TakenOver(before, after) {
			return s.takenOver()
		}
	}
	kind, err := s.kind()
	if err != nil {
		return s.refuse(err)
	}
	restored, err := hidden.Restore(old, new, func(list fieldperm.Path) []string { return s.filters.cfg.Lists.ListKeys(kind, list) })
	if err != nil {
		return s.refuse(err)
	}
	set, applied := restored.Set, true
	if p := patchOf(ctx); p != nil {
		if set, applied = p.touched, p.applied; p.applies {
			set, applied = hidden.AppliedBy(p.manager, managersOf(new)), hiddenfield.AppliesApplied(p.manager, managersOf(new))
		}
	}
	if err := s.checkSet(ctx, a, set, by); err != nil {
		return err
	}
	if err := hidden.RestoreMetadata(old, restored.Object, set, applied); err != nil {
		return s.refuse(err)
	}
	return s.replace(a.GetObject(), restored.Object, back)
}

func patchOf(ctx context.Context) *patch {
	notes := requestctx.NotesOf(ctx)
	if !notes.Kept(patchKey{}) {
		return nil
	}
	p, _ := notes.Keep(patchKey{}, func() any { return nil }).(*patch)
	return p
}

// pair returns both objects in the version that fields are declared for, and a function to convert them back.
func (s *sight) pair(stored, written runtime.Object, by *scheme) (old, new runtime.Object, back func(runtime.Object) (runtime.Object, error), err error) {
	if by == nil {
		return stored, written, func(o runtime.Object) (runtime.Object, error) { return o, nil }, nil
	}
	if old, _, err = s.declared(stored, by); err != nil {
		return nil, nil, nil, err
	}
	new, back, err = s.declared(written, by)
	return old, new, back, err
}

// replace replaces the written object with the restored one.
func (s *sight) replace(written, restored runtime.Object, back func(runtime.Object) (runtime.Object, error)) error {
	made, err := back(restored)
	if err != nil {
		return s.refuse(err)
	}
	if into, ok := written.(*unstructured.Unstructured); ok {
		into.Object = made.(*unstructured.Unstructured).Object
		return nil
	}
	at, from := reflect.ValueOf(written), reflect.ValueOf(made)
	if at.Type() != from.Type() {
		return s.refuse(fmt.Errorf("a %s became a %s", at.Type(), from.Type()))
	}
	at.Elem().Set(from.Elem())
	return nil
}

func (s *sight) refuse(err error) error {
	return apierrors.NewForbidden(resourceOf(s.attrs), s.attrs.GetName(), err)
}

// checkSet refuses to set hidden fields where the outcome would reveal whether the value is the stored one: where a
// write of an equal value passes and a write of another value does not.
func (s *sight) checkSet(ctx context.Context, a admission.Attributes, set hiddenfield.Set, by *scheme) error {
	for _, h := range set {
		switch {
		case a.IsDryRun():
			return s.refuse(fmt.Errorf("a dry run that sets %s would tell whether it is the stored value, and takes %s (%s)", h.Field, h.Verb(), h.Source))
		case isImmutable(a.GetOldObject(), by):
			return s.refuse(fmt.Errorf("the object is immutable, and setting %s would tell whether it is the stored value: that takes %s (%s)", h.Field, h.Verb(), h.Source))
		case !h.Exclusive && s.holder.Get(requestctx.Request).IsAllowed():
			continue // no right depends on what changes
		}
		verb := fieldperm.VerbPrefix + h.Permission
		facts := readfilter.Facts(ctx, readfilter.State{Holder: s.holder, Attributes: s.attrs, Operation: readfilter.Operation, Object: a.GetOldObject(), Convert: by.converter(), Namespaces: s.filters.cfg.Namespaces})
		if s.filters.cfg.Gate.Decide(ctx, authorize.WithVerb(s.attrs, verb)).Resolve(ctx, facts).Decision != authorizer.DecisionAllow {
			return s.refuse(fmt.Errorf("setting %s, which is hidden from you, takes %s (%s)", h.Field, verb, h.Source))
		}
	}
	return nil
}

// isImmutable reports whether an object is marked immutable, as secrets and config maps can be.
func isImmutable(o runtime.Object, by *scheme) bool {
	if by == nil {
		return false
	}
	v := reflect.ValueOf(o)
	if v.Kind() != reflect.Pointer || v.Elem().Kind() != reflect.Struct {
		return false
	}
	flag := v.Elem().FieldByName("Immutable")
	return flag.IsValid() && flag.Kind() == reflect.Pointer && !flag.IsNil() && flag.Elem().Kind() == reflect.Bool && flag.Elem().Bool()
}

func managersOf(o runtime.Object) []metav1.ManagedFieldsEntry {
	m, err := meta.Accessor(o)
	if err != nil {
		return nil
	}
	return m.GetManagedFields()
}
