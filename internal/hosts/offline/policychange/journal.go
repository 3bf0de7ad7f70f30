package policychange

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"

	"proviso.dev/proviso/internal/features/base"
	"proviso.dev/proviso/internal/hosts/offline/manifests"
	"proviso.dev/proviso/internal/state/journal"
	"proviso.dev/proviso/internal/state/source"
)

// ReadJournal asks a server who changed which policy.
func ReadJournal(ctx context.Context, config *rest.Config, query map[string]string) (*journal.History, error) {
	client, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, err
	}
	request := client.RESTClient().Get().AbsPath(base.HistoryPath)
	for name, value := range query {
		request = request.Param(name, value)
	}
	body, err := request.Do(ctx).Raw()
	switch {
	case apierrors.IsNotFound(err):
		return nil, fmt.Errorf("%s keeps no journal of policy: only proviso serve does, unless it runs with --policy-history-entries=0; the audit log of a stock server says who changed what", config.Host)
	case apierrors.IsForbidden(err):
		return nil, fmt.Errorf("you may not see who changed which policy; ask for a cluster role that allows get on the path %s: %w", base.HistoryPath, err)
	case err != nil:
		return nil, err
	}
	history := &journal.History{}
	if err := json.Unmarshal(body, history); err != nil {
		return nil, fmt.Errorf("the journal of policy has not come to its end: %w", err)
	}
	return history, nil
}

// documentOf is an object of the journal.
func documentOf(content json.RawMessage, name string) (manifests.Document, error) {
	object := &unstructured.Unstructured{}
	if err := json.Unmarshal(content, &object.Object); err != nil {
		return manifests.Document{}, fmt.Errorf("%s: %w", name, err)
	}
	return manifests.Document{Text: source.Text{Name: name, Object: object}}, nil
}

// AsOf returns the policy right after a revision: the current one without the later changes. A change that was too
// large for the journal cannot be undone, and is an error.
func AsOf(now []manifests.Document, entries []journal.Entry, revision uint64) ([]manifests.Document, error) {
	since := slices.IndexFunc(entries, func(e journal.Entry) bool { return e.At() > revision })
	if since < 0 {
		return now, nil
	}
	return asOfAll(now, entries[since:])
}

// asOfAll undoes changes, the latest first.
func asOfAll(now []manifests.Document, entries []journal.Entry) ([]manifests.Document, error) {
	state := map[string]manifests.Document{}
	var order []string
	for _, d := range now {
		state[d.Key()] = d
		order = append(order, d.Key())
	}
	for _, e := range slices.Backward(entries) {
		if e.TooLarge {
			return nil, fmt.Errorf("the change of %s at revision %d was too large to be kept: nothing before it can be shown", e.Key(), e.At())
		}
		before, after := manifests.Document{}, manifests.Document{}
		var err error
		if e.Before != nil {
			before, err = documentOf(e.Before, fmt.Sprintf("%s before revision %d", e.Key(), e.At()))
		}
		if err == nil && e.After != nil {
			after, err = documentOf(e.After, fmt.Sprintf("%s at revision %d", e.Key(), e.At()))
		}
		if err != nil {
			return nil, err
		}
		key := ""
		for _, d := range []manifests.Document{before, after} {
			if d.Object != nil {
				key = d.Key()
			}
		}
		if have, found := state[key]; e.Revision == 0 && found != (e.After != nil) || e.Revision == 0 && found && !same(have.Object, after.Object) {
			continue // it was not made after all
		}
		if e.Before == nil {
			delete(state, key)
			continue
		}
		if _, known := state[key]; !known && !slices.Contains(order, key) {
			order = append(order, key)
		}
		state[key] = before
	}
	var out []manifests.Document
	for _, key := range order {
		if d, still := state[key]; still {
			out = append(out, d)
		}
	}
	return out, nil
}

// same reports whether two objects say the same.
func same(a, b *unstructured.Unstructured) bool {
	return bytes.Equal(essence(a), essence(b))
}

// essence returns the part of an object that people write.
func essence(object *unstructured.Unstructured) []byte {
	if object == nil {
		return nil
	}
	object = object.DeepCopy()
	delete(object.Object, "status")
	for _, field := range []string{"managedFields", "resourceVersion", "generation", "selfLink", "uid", "creationTimestamp"} {
		unstructured.RemoveNestedField(object.Object, "metadata", field)
	}
	unstructured.RemoveNestedField(object.Object, "metadata", "annotations", "kubectl.kubernetes.io/last-applied-configuration")
	if len(object.GetAnnotations()) == 0 {
		unstructured.RemoveNestedField(object.Object, "metadata", "annotations")
	}
	if container, holds := containers[object.GroupVersionKind().GroupKind().String()]; holds {
		inside, _, _ := unstructured.NestedMap(object.Object, container.field)
		for _, one := range inside {
			if fields, ok := one.(map[string]any); ok {
				delete(fields, "status")
				for _, field := range []string{"managedFields", "resourceVersion", "generation", "uid", "creationTimestamp"} {
					unstructured.RemoveNestedField(fields, "metadata", field)
				}
			}
		}
		object.Object[container.field] = inside
		delete(object.Object, "lastModified")
	}
	text, err := json.Marshal(object.Object) // with sorted keys
	if err != nil {
		return nil
	}
	return text
}

// difference is what has to be written, and what deleted, to get from one policy to another.
func difference(from, to []manifests.Document) (put, remove []manifests.Document) {
	there := map[string]manifests.Document{}
	for _, d := range from {
		there[d.Key()] = d
	}
	wanted := map[string]bool{}
	for _, d := range to {
		wanted[d.Key()] = true
		if have, found := there[d.Key()]; !found || !same(have.Object, d.Object) {
			put = append(put, d)
		}
	}
	for _, d := range from {
		if !wanted[d.Key()] {
			remove = append(remove, d)
		}
	}
	return put, remove
}

// Inside returns the roles or bindings in a container that have changed.
func Inside(e *journal.Entry) string {
	field := map[string]string{"policies": "roles", "policybindings": "roleBindings"}[e.Resource]
	if field == "" || e.TooLarge {
		return ""
	}
	var was, is map[string]any
	_ = json.Unmarshal(e.Before, &was) // nothing if it was not there
	_ = json.Unmarshal(e.After, &is)
	before, _, _ := unstructured.NestedMap(was, field)
	after, _, _ := unstructured.NestedMap(is, field)
	var names []string
	for name, one := range after {
		old, found := before[name]
		a, _ := json.Marshal(old)
		b, _ := json.Marshal(one)
		switch {
		case !found:
			names = append(names, "+"+name)
		case !bytes.Equal(a, b):
			names = append(names, "~"+name)
		}
	}
	for name := range before {
		if _, still := after[name]; !still {
			names = append(names, "-"+name)
		}
	}
	slices.SortFunc(names, func(a, b string) int { return strings.Compare(a[1:], b[1:]) })
	return strings.Join(names, " ")
}

// RevisionOf reads a revision. Only those that the journal reaches back to can be shown.
func RevisionOf(name string, history *journal.History) (uint64, error) {
	if name == "now" {
		return ^uint64(0), nil
	}
	revision, err := strconv.ParseUint(name, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%q is not a revision: want a number from proviso history, or now", name)
	}
	switch {
	case history.Hidden > 0:
		return 0, fmt.Errorf("the journal has %d changes of objects that you may not get, and without them no earlier policy is known; ask for get on all policy and RBAC", history.Hidden)
	case history.Unreadable > 0:
		return 0, fmt.Errorf("the journal has %d entries that the server cannot read, and without them no earlier policy is known", history.Unreadable)
	case len(history.Entries) == 0:
		return 0, errors.New("the journal is empty: there is no earlier policy")
	case revision < history.Entries[0].At():
		return 0, fmt.Errorf("the journal begins at revision %d: what was before %d is not known", history.Entries[0].At(), history.Entries[0].At())
	}
	newest := uint64(0)
	for i := range history.Entries {
		newest = max(newest, history.Entries[i].At())
	}
	if revision > newest {
		return 0, fmt.Errorf("there is no revision %d: the newest change is revision %d", revision, newest)
	}
	return revision, nil
}
