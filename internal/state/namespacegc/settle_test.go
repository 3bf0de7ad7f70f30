package namespacegc

import (
	"context"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	policy "proviso.dev/proviso/api/policy/v1alpha1"
)

// known is one namespace.
type known struct {
	name string
	is   Namespace
}

func (k known) Known(name string) *Namespace {
	if name != k.name {
		return nil
	}
	return &k.is
}

func (k known) Live(_ context.Context, name string) (*Namespace, error) { return k.Known(name), nil }

// PO-20: what belongs to the namespace that is there, and says so, is left alone. Everything else is looked at.
func TestWhatIsSettled(t *testing.T) {
	now := time.Now()
	s := &Settler{master: "master", namespaces: known{"hammer", Namespace{UID: "second", Created: metav1.NewTime(now)}}}
	object := func(namespace, uid string, made time.Time) *policy.Policy {
		p := &policy.Policy{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "default", CreationTimestamp: metav1.NewTime(made)}}
		if uid != "" {
			p.Annotations = map[string]string{policy.AnnotationNamespaceUID: uid}
		}
		return p
	}
	for _, c := range []struct {
		name                     string
		object                   *policy.Policy
		wantBelongs, wantSettled bool
	}{
		{"of this namespace", object("hammer", "second", now), true, true},
		{"of the one before it", object("hammer", "first", now.Add(-time.Hour)), false, false},
		{"of the one before it, made later", object("hammer", "first", now.Add(time.Hour)), false, false},
		{"from before UIDs were kept, to be adopted", object("hammer", "", now.Add(time.Hour)), true, false},
		{"from before UIDs were kept, and older than the namespace", object("hammer", "", now.Add(-time.Hour)), false, false},
		{"of a namespace that is gone", object("anvil", "second", now), false, false},
		{"of the master namespace, which stays", object("master", "", now), false, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := Belongs(c.object, s.namespaces.Known(c.object.Namespace)); got != c.wantBelongs {
				t.Errorf("belongs: %v", got)
			}
			if got := s.isSettled(c.object); got != c.wantSettled {
				t.Errorf("settled: %v", got)
			}
		})
	}
}
