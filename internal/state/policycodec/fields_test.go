package policycodec

import (
	"context"
	"errors"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kubestorage "k8s.io/apiserver/pkg/storage"

	policy "proviso.dev/proviso/api/policy/v1alpha1"
)

// PO-25: a release knows every field of the first one, and says which ones came later.
func TestKnownFields(t *testing.T) {
	now := map[string]bool{}
	for _, kind := range StoredKinds() {
		for _, path := range shapeOf(kind.GroupKind()).paths("") {
			now[kind.Kind+path] = true
		}
	}
	for _, field := range strings.Fields(firstRelease) {
		if !now[field] {
			t.Errorf("%s was stored by the first release and is not known now", field)
		}
	}
	if known := KnownFields(); slices.Contains(known, "Policy.roles[].rules[].deny") {
		t.Errorf("known beyond the first release: %v", known)
	}
	// A release that came before the one with denies.
	without := slices.DeleteFunc(slices.Sorted(maps.Keys(now)), func(field string) bool { return field == "Policy.roles[].rules[].deny" })
	later := laterThan(without)
	if got := known(later); !slices.Equal(got, []string{"Policy.roles[].rules[].deny"}) {
		t.Errorf("known beyond a release without denies: %v", got)
	}
	for deny, want := range map[bool]int{true: 1, false: 0} {
		p := &policy.Policy{Roles: map[string]policy.PolicyRole{"a": {Rules: []policy.PolicyRule{{Deny: deny}}}}}
		if used := inUse(p, later); len(used) != want {
			t.Errorf("a rule with deny %v: %v are in use", deny, used)
		}
	}
}

// PO-25: a field is in use where it is written.
func TestStores(t *testing.T) {
	p := &policy.Policy{ObjectMeta: metav1.ObjectMeta{Name: "default"}, Roles: map[string]policy.PolicyRole{"a": {}, "b": {Rules: []policy.PolicyRule{{Where: "x", AttributeRestrictions: &policy.AttributeRestrictions{SameNodeRestriction: true}}}}}}
	for path, want := range map[string]bool{".metadata.name": true, ".metadata.uid": false, ".roles": true, ".roles[].rules[].where": true, ".roles[].rules[].when": false,
		".roles[].rules[].verbs": true /* never left out */, ".roles[].rules[].attributeRestrictions.sameNodeRestriction": true, ".roles[].rules[].attributeRestrictions.labelsContain": false,
		".status.roles[].rules": false, ".ignorable": false} {
		if got := stores(reflect.ValueOf(p).Elem(), path); got != want {
			t.Errorf("%s is written: %v, want %v", path, got, want)
		}
	}
}

type recordingStorage struct {
	kubestorage.Interface
	stored int
}

func (s *recordingStorage) Create(context.Context, string, runtime.Object, runtime.Object, uint64) error {
	s.stored++
	return nil
}

func (s *recordingStorage) GuaranteedUpdate(_ context.Context, _ string, _ runtime.Object, _ bool, _ *kubestorage.Preconditions, try kubestorage.UpdateFunc, _ runtime.Object) error {
	if _, _, err := try(&policy.Policy{}, kubestorage.ResponseMeta{}); err != nil {
		return err
	}
	s.stored++
	return nil
}

type oldReplica struct{ knows string }

func (r oldReplica) NeedFields(_ context.Context, fields []string) error {
	if !slices.Contains(fields, r.knows) {
		return errors.New("the replica on host-old does not know " + fields[0])
	}
	return nil
}

// PO-25: what a replica does not know is not stored, by a create or by an update; twin: what it knows is.
func TestSupportedStorage(t *testing.T) {
	for field, want := range map[string]bool{"Policy.note": true, "Policy.other": false} {
		inner := &recordingStorage{}
		s := &supportedStorage{inner, schema.GroupResource{Resource: "policies"}, oldReplica{"Policy.note"}, func(runtime.Object) []string { return []string{field} }}
		same := func(obj runtime.Object, _ kubestorage.ResponseMeta) (runtime.Object, *uint64, error) {
			return obj, nil, nil
		}
		for _, err := range []error{s.Create(t.Context(), "/a/default", &policy.Policy{}, nil, 0), s.GuaranteedUpdate(t.Context(), "/a/default", nil, false, nil, same, nil)} {
			if (err == nil) != want || !want && (!apierrors.IsConflict(err) || !strings.Contains(err.Error(), "host-old")) {
				t.Errorf("%s: %v", field, err)
			}
		}
		if (inner.stored == 2) != want || !want && inner.stored != 0 {
			t.Errorf("%s: stored %d times", field, inner.stored)
		}
	}
}

// PO-25, OP-4: the check before a downgrade names every field that is not known, those that are listed as harmless
// included.
func TestCheckNamesUnknownFields(t *testing.T) {
	const key = "/registry/policy.proviso.dev/policies/hammer/default"
	for name, tc := range map[string]struct{ text, want string }{
		"known":              {current + storedPolicy + `,` + goodRoles + `}`, ""},
		"of the policy":      {current + storedPolicy + `,"note":1,` + goodRoles + `}`, `"note"`},
		"of metadata":        {strings.Replace(current+storedPolicy, `"uid"`, `"later":1,"uid"`, 1) + `,` + goodRoles + `}`, "metadata.later"},
		"of a rule":          {current + storedPolicy + `,"roles":{"a":{"rules":[{"verbs":["get"],"resourceKinds":["pods"],"note":1}]}}}`, "unknown note"},
		"harmless":           {current + storedPolicy + `,"ignorable":[".note"],"note":1,` + goodRoles + `}`, "unknown note, which its writer lists as harmless"},
		"harmless in a rule": {current + storedPolicy + `,"ignorable":[".roles[].rules[].note"],"roles":{"a":{"rules":[{"verbs":["get"],"resourceKinds":["pods"],"note":1}]}}}`, "unknown roles[a].rules[0].note, which"},
	} {
		found, ok := Understand("/registry", key, []byte(tc.text))
		if got := strings.Join(found.Problems, "; "); !ok || (got == "") != (tc.want == "") || !strings.Contains(got, tc.want) {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
}
