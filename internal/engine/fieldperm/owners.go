package fieldperm

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/typed"
	"sigs.k8s.io/structured-merge-diff/v6/value"
)

// The managers of a field decide what the next apply does: it removes what its manager has applied before and now
// leaves out, unless another manager has it too, and it conflicts with other managers. So a user who may not change a
// field may not change its managers either: by writing managedFields, by emptying them, or by applying the existing
// value, under their own name or, since any name can be given, under another one. Where the value itself has changed,
// the change has been checked, and the server derives the managers from it.

// owner identifies an entry of managedFields as Kubernetes does: an applier has one entry, an updater one per version.
type owner struct{ manager, operation, version, subresource string }

func (o owner) String() string { return fmt.Sprintf("%q (%s)", o.manager, o.operation) }

// owned is what an entry says.
type owned struct {
	version string
	fields  []byte
}

const (
	applied = string(metav1.ManagedFieldsOperationApply)
	updated = string(metav1.ManagedFieldsOperationUpdate)
	// Names that Kubernetes gives to entries that it creates itself.
	firstApplied = "before-first-apply"
	ancient      = "ancient-changes"
	maxUpdaters  = 10
)

// readOwners reads managedFields. Of two entries of one owner the last counts, as in Kubernetes.
func readOwners(entries []metav1.ManagedFieldsEntry) map[owner]owned {
	all := make(map[owner]owned, len(entries))
	for _, e := range entries {
		o := owner{manager: e.Manager, operation: string(e.Operation), subresource: e.Subresource}
		if o.operation != applied {
			o.version = e.APIVersion
		}
		v := owned{version: e.APIVersion}
		if e.FieldsV1 != nil {
			v.fields = e.FieldsV1.Raw
		}
		all[o] = v
	}
	return all
}

func (o owned) set() (*fieldpath.Set, error) {
	set := fieldpath.NewSet()
	if len(o.fields) == 0 {
		return set, nil
	}
	return set, set.FromJSON(bytes.NewReader(o.fields))
}

// handover is a set of fields of one version that an entry has gained or lost.
type handover struct {
	owner   owner
	version string
	lost    bool
	fields  *fieldpath.Set
}

// handovers compares the entries of two objects. What Kubernetes does by itself is left out: the entry for fields from
// before the first apply, and the merging of the oldest updaters.
func handovers(before, after map[owner]owned) ([]handover, error) {
	var all []handover
	add := func(o owner, v owned, lost bool, without *owned) error {
		set, err := v.set()
		if err != nil {
			return fmt.Errorf("managedFields of manager %s cannot be read: %w", o, err)
		}
		if without != nil && without.version == v.version {
			other, err := without.set()
			if err != nil {
				return fmt.Errorf("managedFields of manager %s cannot be read: %w", o, err)
			}
			set = set.Difference(other)
		}
		if !set.Empty() {
			all = append(all, handover{o, v.version, lost, set})
		}
		return nil
	}
	for o, was := range before {
		is, ok := after[o]
		switch {
		case !ok:
			if err := add(o, was, true, nil); err != nil {
				return nil, err
			}
		case is.version == was.version && bytes.Equal(is.fields, was.fields):
		default:
			if err := add(o, was, true, &is); err != nil {
				return nil, err
			}
			if err := add(o, is, false, &was); err != nil {
				return nil, err
			}
		}
	}
	for o, is := range after {
		if _, ok := before[o]; ok || len(before) == 0 && o.manager == firstApplied && o.operation == updated {
			continue
		}
		if err := add(o, is, false, nil); err != nil {
			return nil, err
		}
	}
	slices.SortFunc(all, func(a, b handover) int {
		return strings.Compare(fmt.Sprint(a.owner, a.version, a.lost), fmt.Sprint(b.owner, b.version, b.lost))
	})
	return withoutMerged(all, before, after), nil
}

// withoutMerged leaves out fields that move from removed updaters to the entry in which Kubernetes collects the oldest
// ones: the fields keep an updater, so no later apply has a different result.
func withoutMerged(all []handover, before, after map[owner]owned) []handover {
	updaters := 0
	for o := range before {
		if o.operation == updated {
			updaters++
		}
	}
	if updaters < maxUpdaters {
		return all
	}
	var rest []handover
	for i, h := range all {
		if h.owner.operation != updated || h.owner.subresource != "" && !h.lost {
			rest = append(rest, h)
			continue
		}
		bucket := owner{manager: ancient, operation: updated, version: h.version}
		moved := fieldpath.NewSet()
		switch _, stays := after[h.owner]; {
		case h.lost && !stays:
			if collected, ok := after[bucket]; ok {
				if set, err := collected.set(); err == nil {
					moved = set
				}
			}
		case !h.lost && h.owner == bucket:
			for j, other := range all {
				if _, stays := after[other.owner]; j != i && other.lost && !stays && other.owner.operation == updated && other.version == h.version {
					moved = moved.Union(other.fields)
				}
			}
		}
		if h.fields = h.fields.Difference(moved); !h.fields.Empty() {
			rest = append(rest, h)
		}
	}
	return rest
}

// SameManagers reports whether two objects have the same managers for the same fields.
func SameManagers(old, new []metav1.ManagedFieldsEntry) bool {
	changes, err := handovers(readOwners(old), readOwners(new))
	return err == nil && len(changes) == 0
}

// ManagedChanges lists the fields whose managers differ between two objects, whatever their values are.
func ManagedChanges(old, new []metav1.ManagedFieldsEntry) ([]Path, error) {
	changes, err := handovers(readOwners(old), readOwners(new))
	if err != nil {
		return nil, err
	}
	var all []Path
	for _, h := range changes {
		h.fields.Iterate(func(managed fieldpath.Path) {
			p := make(Path, len(managed))
			for i, e := range managed {
				if p[i] = Key(elementName(nil, e)); e.FieldName != nil {
					p[i] = Field(*e.FieldName)
				}
			}
			all = append(all, p)
		})
	}
	return all, nil
}

// owners refuses a change of the managers of a field that the caller may not change.
func (d *inspection) owners(old *typed.TypedValue) *Result {
	if d.req.Managers == nil {
		return nil
	}
	before, after := d.req.Managers()
	changes, err := handovers(readOwners(before), readOwners(after))
	if err != nil {
		return &Result{Err: err}
	}
	own, _ := get(d.new.AsValue(), "apiVersion")
	for _, h := range changes {
		was, is := old, d.new
		if own == nil || !own.IsString() || own.AsString() != h.version {
			if d.req.Versioned == nil {
				return &Result{Err: fmt.Errorf("manager %s has fields in version %s, which is not available", h.owner, h.version)}
			}
			was, is, err = d.req.Versioned(h.version)
			if err != nil && h.lost {
				continue // the entries of a version that is gone are dropped with it
			}
			if err != nil {
				return &Result{Err: fmt.Errorf("manager %s has fields in version %s: %w", h.owner, h.version, err)}
			}
		}
		if refusal := d.handover(h, was, is); refusal != nil {
			return refusal
		}
	}
	return nil
}

func (d *inspection) handover(h handover, old, new *typed.TypedValue) *Result {
	w := walker{ctx: d.req.Context, general: d.req.Mode == General, standIn: standInType(d.req.Target)}
	tr, err := w.begin(d.tree, old, new, nil)
	if err != nil {
		return &Result{Err: err}
	}
	h.fields.Iterate(func(path fieldpath.Path) {
		if w.err == nil {
			w.managed(tr, path)
		}
	})
	if w.err != nil {
		return &Result{Err: w.err}
	}
	slices.SortFunc(w.changed, func(a, b *class) int { return a.first.compare(b.first) })
	for _, c := range w.changed {
		n := d.plan.unmet(c)
		switch {
		case n == nil:
			continue
		case d.plan.tooMany:
			return &Result{TooMany: true}
		}
		m := n.missing(c.first)
		m.Manager = h.owner.String()
		return &Result{Missing: m}
	}
	return nil
}

// get reads a field of a map; nil if there is none.
func get(v value.Value, name string) (value.Value, bool) {
	if v == nil || !v.IsMap() {
		return nil, false
	}
	return v.AsMap().Get(name)
}
