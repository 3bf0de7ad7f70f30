package policychange

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	accessv1alpha1 "proviso.dev/proviso/api/access/v1alpha1"
	"proviso.dev/proviso/internal/hosts/offline/manifests"
	"proviso.dev/proviso/internal/state/journal"
	"proviso.dev/proviso/internal/state/snapshot"
)

// revocation is the kind of revocations of tokens. They are in the journal, but are not policy: they cannot be deleted
// while a token lives that they are about, and are over afterwards. So there is nothing to restore.
const revocation = "TokenRevocation." + accessv1alpha1.GroupName

// Parts are a policy as people write it, without revocations of tokens: the roles and role bindings by themselves, and
// their containers empty. So each can be taken back alone, and a user who may not read the containers has the same.
func Parts(documents []manifests.Document) (parts []manifests.Document) {
	for _, d := range documents {
		parts = append(parts, partsOf(d)...)
	}
	return parts
}

func partsOf(d manifests.Document) (parts []manifests.Document) {
	if d.Object == nil {
		return nil
	}
	kind := d.Object.GroupVersionKind().GroupKind().String()
	if kind == revocation {
		return nil
	}
	container, holds := containers[kind]
	if !holds {
		return []manifests.Document{d}
	}
	empty := d.Object.DeepCopy()
	delete(empty.Object, container.field)
	parts = append(parts, manifests.Of(empty))
	held := views(d.Object, container.field)
	for _, name := range slices.Sorted(maps.Keys(held)) {
		parts = append(parts, manifests.Of(held[name]))
	}
	return parts
}

// Selection is the part of a policy that is rolled back; the zero value means all of it.
type Selection struct {
	Namespace string
	// Roles are names of roles: they, and the bindings of them.
	Roles []string
}

func (s Selection) has(object *unstructured.Unstructured) bool {
	if object == nil || s.Namespace != "" && object.GetNamespace() != s.Namespace {
		return false
	}
	if len(s.Roles) == 0 {
		return true
	}
	switch object.GetKind() {
	case "Role", "ClusterRole":
		return slices.Contains(s.Roles, object.GetName())
	case "RoleBinding", "ClusterRoleBinding":
		return slices.Contains(s.Roles, boundRole(object))
	}
	return isContainer(object)
}

func isContainer(object *unstructured.Unstructured) bool {
	_, holds := containers[object.GroupVersionKind().GroupKind().String()]
	return holds
}

// boundRole is the name of the role that a binding binds.
func boundRole(binding *unstructured.Unstructured) string {
	name, _, _ := unstructured.NestedString(binding.Object, "roleRef", "name")
	return name
}

// undone is one part of one change.
type undone struct {
	key           string
	before, after *unstructured.Unstructured
}

// isRevocation reports whether a change is one of a revocation of tokens. These are in the journal, but are not policy:
// they cannot be deleted while a token lives that they are about, and are over afterwards. There is nothing to restore.
func isRevocation(e *journal.Entry) bool {
	return e.Group == accessv1alpha1.GroupName && e.Resource == snapshot.TokenRevocations.Resource
}

// undoneBy are the parts that a change changed.
func undoneBy(e *journal.Entry) (all []undone, err error) {
	if isRevocation(e) {
		return nil, nil
	}
	if e.TooLarge {
		return nil, fmt.Errorf("the change of %s at revision %d was too large to be kept: nothing before it can be shown", e.Key(), e.At())
	}
	at := map[string]int{}
	for i, content := range []json.RawMessage{e.Before, e.After} {
		if content == nil {
			continue
		}
		d, err := documentOf(content, fmt.Sprintf("%s of revision %d", e.Key(), e.At()))
		if err != nil {
			return nil, err
		}
		for _, part := range partsOf(d) {
			n, known := at[part.Key()]
			if !known {
				n = len(all)
				at[part.Key()] = n
				all = append(all, undone{key: part.Key()})
			}
			if i == 0 {
				all[n].before = part.Object
			} else {
				all[n].after = part.Object
			}
		}
	}
	return slices.DeleteFunc(all, func(u undone) bool { return u.before != nil && u.after != nil && same(u.before, u.after) }), nil
}

// past is a policy that goes back in time.
type past struct {
	state map[string]manifests.Document
	order []string
}

func pastOf(now []manifests.Document) *past {
	p := &past{state: map[string]manifests.Document{}}
	for _, d := range now {
		p.state[d.Key()] = d
		p.order = append(p.order, d.Key())
	}
	return p
}

// back undoes one part of a change. A change that was not made is ignored.
func (p *past) back(e *journal.Entry, u undone) {
	have, found := p.state[u.key]
	if e.Revision == 0 && (found != (u.after != nil) || found && !same(have.Object, u.after)) {
		return
	}
	if u.before == nil {
		delete(p.state, u.key)
		return
	}
	if !found && !slices.Contains(p.order, u.key) {
		p.order = append(p.order, u.key)
	}
	p.state[u.key] = manifests.Of(u.before)
}

func (p *past) documents() (out []manifests.Document) {
	for _, key := range p.order {
		if d, still := p.state[key]; still {
			out = append(out, d)
		}
	}
	return out
}

// PartsAsOf is what the parts were right after a revision, as far as they are selected; the others are as they are.
func PartsAsOf(now []manifests.Document, entries []journal.Entry, revision uint64, only Selection) ([]manifests.Document, error) {
	p := pastOf(now)
	for i := range slices.Backward(entries) {
		e := &entries[i]
		if e.At() <= revision || only.Namespace != "" && e.Namespace != only.Namespace {
			continue
		}
		parts, err := undoneBy(e)
		if err != nil {
			return nil, err
		}
		for _, u := range parts {
			if only.has(u.before) || only.has(u.after) && !(isContainer(u.after) && len(only.Roles) > 0) {
				p.back(e, u)
			}
		}
	}
	return p.documents(), nil
}

// Undo takes one change back, with the later changes of the same roles and objects, and the bindings of roles that are
// then no longer there. These are returned, too.
func Undo(now []manifests.Document, entries []journal.Entry, revision uint64) (then []manifests.Document, with []journal.Entry, err error) {
	first := slices.IndexFunc(entries, func(e journal.Entry) bool { return e.Revision == revision })
	if first < 0 {
		return nil, nil, fmt.Errorf("no change that you may see has revision %d; proviso history lists them", revision)
	}
	if isRevocation(&entries[first]) {
		return nil, nil, fmt.Errorf("change %d revokes tokens, and a revocation cannot be undone: ask for a new token", revision)
	}
	of, err := undoneBy(&entries[first])
	if err != nil {
		return nil, nil, err
	}
	touched := map[string]bool{}
	for _, u := range of {
		touched[u.key] = true
	}
	p := pastOf(now)
	for i := len(entries) - 1; i >= first; i-- {
		parts, err := undoneBy(&entries[i])
		if err != nil {
			return nil, nil, err
		}
		some := false
		for _, u := range parts {
			if touched[u.key] {
				some = true
				p.back(&entries[i], u)
			}
		}
		if some && i > first {
			with = append(with, entries[i])
		}
	}
	p.dropLoose(now)
	slices.Reverse(with)
	return p.documents(), with, nil
}

// dropLoose takes out the bindings of roles that were there and are gone.
func (p *past) dropLoose(now []manifests.Document) {
	gone := map[string]bool{}
	for _, d := range now {
		if _, still := p.state[d.Key()]; !still && strings.HasSuffix(d.Object.GetKind(), "Role") {
			gone[roleKey(d.Object.GroupVersionKind().Group, d.Object.GetKind(), d.Object.GetNamespace(), d.Object.GetName())] = true
		}
	}
	for key, d := range p.state {
		if !strings.HasSuffix(d.Object.GetKind(), "RoleBinding") {
			continue
		}
		kind, _, _ := unstructured.NestedString(d.Object.Object, "roleRef", "kind")
		namespace, given, _ := unstructured.NestedString(d.Object.Object, "roleRef", "namespace")
		if !given && kind != "ClusterRole" {
			namespace = d.Object.GetNamespace()
		}
		if kind == "" {
			kind = "Role"
		}
		group, given, _ := unstructured.NestedString(d.Object.Object, "roleRef", "apiGroup")
		if !given {
			group = d.Object.GroupVersionKind().Group
		}
		if gone[roleKey(group, kind, namespace, boundRole(d.Object))] {
			delete(p.state, key)
		}
	}
}

func roleKey(group, kind, namespace, name string) string {
	return strings.Join([]string{group, kind, namespace, name}, "/")
}

// MomentOf reads a revision, now, or a time: the policy of that moment is the one after the last change before it.
func MomentOf(text string, history *journal.History, clock time.Time) (uint64, error) {
	if _, err := strconv.ParseUint(text, 10, 64); err == nil || text == "now" {
		return RevisionOf(text, history)
	}
	moment, err := TimeOf(text, clock)
	if err != nil {
		return 0, fmt.Errorf("%q is neither a revision of proviso history nor a time: %w", text, err)
	}
	if moment.After(clock) {
		return 0, fmt.Errorf("%s is in the future", moment.Format(time.RFC3339))
	}
	at := uint64(0)
	for i := range history.Entries {
		if !history.Entries[i].Time.After(moment) {
			at = max(at, history.Entries[i].At())
		}
	}
	if at == 0 {
		begins := ""
		if len(history.Entries) > 0 {
			begins = " begins at " + history.Entries[0].Time.Format(time.RFC3339) + ", and"
		}
		return 0, fmt.Errorf("the journal%s does not reach back to %s", begins, moment.Format(time.RFC3339))
	}
	return at, nil
}

// TimeOf reads a time as people write it: how long ago (2h, 3d), a day, or a time of RFC 3339.
func TimeOf(text string, clock time.Time) (time.Time, error) {
	if days, ok := strings.CutSuffix(text, "d"); ok {
		if n, err := strconv.Atoi(days); err == nil && n >= 0 {
			return clock.AddDate(0, 0, -n), nil
		}
	}
	if ago, err := time.ParseDuration(text); err == nil && ago >= 0 {
		return clock.Add(-ago), nil
	}
	for _, layout := range []string{time.RFC3339, "2006-01-02T15:04:05", "2006-01-02T15:04", "2006-01-02 15:04", "2006-01-02"} {
		if t, err := time.ParseInLocation(layout, text, clock.Location()); err == nil {
			return t, nil
		}
	}
	return time.Time{}, fmt.Errorf("want how long ago, such as 2h or 3d, a day such as 2026-11-17, or a time such as 2026-11-17T10:00:00Z")
}
