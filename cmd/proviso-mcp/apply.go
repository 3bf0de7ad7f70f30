package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	yamlutil "k8s.io/apimachinery/pkg/util/yaml"
)

// manager is the field manager of apply.
const manager = "proviso-mcp"

// Limits of what waits for a confirmation.
const (
	maxObjects  = 20
	maxPending  = 8
	pendingTime = 10 * time.Minute
)

// application is a call of apply.
type application struct {
	Manifests      string `json:"manifests,omitempty" jsonschema:"the objects, as YAML documents; for the first call"`
	Namespace      string `json:"namespace,omitempty" jsonschema:"the namespace of objects that name none"`
	ConfirmationID string `json:"confirmationId,omitempty" jsonschema:"the id that the dry run gave, and nothing else: what was shown is applied"`
}

// step is one object to apply, as the dry run saw it.
type step struct {
	place  place
	object *unstructured.Unstructured
	// before is the resourceVersion of the stored object; empty if there was none.
	before string
}

func (s step) String() string {
	name := s.place.mapping.Resource.GroupResource().String() + "/" + s.object.GetName()
	if s.place.namespace != "" {
		name += " in namespace " + s.place.namespace
	}
	return name
}

func (t *tools) apply(ctx context.Context, a application) (string, error) {
	switch {
	case a.ConfirmationID != "" && a.Manifests != "":
		return "", errors.New("confirmationId and manifests: give one of them; what was shown is what is applied")
	case a.ConfirmationID != "":
		return t.confirmed(ctx, a.ConfirmationID)
	case a.Manifests == "":
		return "", errors.New("manifests: nothing to apply")
	}
	if err := fits(a.Manifests); err != nil {
		return "", fmt.Errorf("manifests: %w", err)
	}
	steps, err := t.steps(ctx, a)
	if err != nil {
		return "", fmt.Errorf("manifests: %w", err)
	}
	var text strings.Builder
	for i := range steps {
		shown, err := t.tried(ctx, &steps[i])
		if err != nil {
			return text.String(), fmt.Errorf("%s: %w", steps[i], err)
		}
		text.WriteString(shown)
	}
	id := t.pending.add(steps)
	fmt.Fprintf(&text, "\nNothing was changed. To make this change, call apply with confirmationId %q within %s.\n", id, pendingTime)
	return text.String(), nil
}

// steps reads the documents.
func (t *tools) steps(ctx context.Context, a application) (steps []step, err error) {
	documents := yamlutil.NewYAMLOrJSONDecoder(strings.NewReader(a.Manifests), 4096)
	for {
		object := &unstructured.Unstructured{}
		if err := documents.Decode(&object.Object); err != nil {
			if len(steps) > 0 && err.Error() == "EOF" {
				return steps, nil
			}
			return nil, err
		}
		if len(object.Object) == 0 {
			continue
		}
		if len(steps) == maxObjects {
			return nil, fmt.Errorf("more than %d objects", maxObjects)
		}
		if object.GetName() == "" || object.GetKind() == "" || object.GetAPIVersion() == "" {
			return nil, fmt.Errorf("document %d: want apiVersion, kind and metadata.name", len(steps)+1)
		}
		namespace := object.GetNamespace()
		if namespace == "" {
			namespace = a.Namespace
		}
		p, err := t.at(ctx, object.GroupVersionKind(), namespace)
		if err != nil {
			return nil, err
		}
		object.SetManagedFields(nil)
		object.SetNamespace(p.namespace)
		steps = append(steps, step{place: p, object: object})
	}
}

// tried applies one object in a dry run and returns what would change.
func (t *tools) tried(ctx context.Context, s *step) (string, error) {
	stored, err := s.place.client.Get(ctx, s.object.GetName(), metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return "", t.refused(ctx, s.place, "get", s.object.GetName(), err)
	}
	if apierrors.IsNotFound(err) {
		stored = nil
	}
	after, err := s.place.client.Apply(ctx, s.object.GetName(), s.object, metav1.ApplyOptions{FieldManager: manager, DryRun: []string{metav1.DryRunAll}})
	if err != nil {
		return "", t.refused(ctx, s.place, "patch", s.object.GetName(), err)
	}
	if stored == nil {
		return fmt.Sprintf("%s would be created:\n%s", s, strings.Join(differences(nil, after.Object), "")), nil
	}
	s.before = stored.GetResourceVersion()
	lines := differences(stored.Object, after.Object)
	if len(lines) == 0 {
		return fmt.Sprintf("%s would not change\n", s), nil
	}
	return fmt.Sprintf("%s would change:\n%s", s, strings.Join(lines, "")), nil
}

// confirmed applies a change that was shown, if the objects have not changed since.
func (t *tools) confirmed(ctx context.Context, id string) (string, error) {
	steps := t.pending.take(id)
	if steps == nil {
		return "", errors.New("confirmationId: not one that is waiting; call apply with the manifests again")
	}
	var text strings.Builder
	for _, s := range steps {
		stored, err := s.place.client.Get(ctx, s.object.GetName(), metav1.GetOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			return text.String(), fmt.Errorf("%s: %w", s, err)
		}
		now := ""
		if err == nil {
			now = stored.GetResourceVersion()
		}
		if now != s.before {
			return text.String(), fmt.Errorf("%s: it was changed since it was shown; call apply with the manifests again", s)
		}
		// The server compares once more.
		s.object.SetResourceVersion(s.before)
		if _, err := s.place.client.Apply(ctx, s.object.GetName(), s.object, metav1.ApplyOptions{FieldManager: manager}); err != nil {
			return text.String(), fmt.Errorf("%s: %w", s, t.refused(ctx, s.place, "patch", s.object.GetName(), err))
		}
		fmt.Fprintf(&text, "%s applied\n", s)
	}
	return text.String(), nil
}

// pending are changes that were shown and wait for a confirmation; their number and time are limited.
type pending struct {
	mu   sync.Mutex
	wait []waiting
}

type waiting struct {
	id    string
	until time.Time
	steps []step
}

func (p *pending) add(steps []step) (id string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.wait) == maxPending {
		p.wait = p.wait[1:]
	}
	id = rand.Text()
	p.wait = append(p.wait, waiting{id, time.Now().Add(pendingTime), steps})
	return id
}

// take returns a change once.
func (p *pending) take(id string) []step {
	p.mu.Lock()
	defer p.mu.Unlock()
	i := slices.IndexFunc(p.wait, func(w waiting) bool { return w.id == id && time.Now().Before(w.until) })
	if i < 0 {
		return nil
	}
	steps := p.wait[i].steps
	p.wait = slices.Delete(p.wait, i, i+1)
	return steps
}
