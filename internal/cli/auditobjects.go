package cli

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"sigs.k8s.io/yaml"

	auditv1alpha1 "proviso.dev/proviso/api/auditregistration/v1alpha1"
)

// auditObjects are what a file holds that can be converted.
type auditObjects struct {
	policies []*auditv1.Policy
	sinks    []*auditv1alpha1.AuditSink
	classes  []*auditv1alpha1.AuditClass
}

// read adds what one document holds. An item of a list may leave out its kind, which the list has.
func (a *auditObjects) read(document []byte, kind string) error {
	var head struct {
		Kind  string            `json:"kind"`
		Items []json.RawMessage `json:"items"`
	}
	if err := yaml.Unmarshal(document, &head); err != nil {
		return err
	}
	if head.Kind == "" {
		head.Kind = kind
	}
	switch head.Kind {
	case "":
		return nil
	case "Policy":
		return add(&a.policies, document)
	case "AuditSink":
		return add(&a.sinks, document)
	case "AuditClass":
		return add(&a.classes, document)
	case "List", "AuditSinkList", "AuditClassList":
		of := strings.TrimSuffix(head.Kind, "List")
		for i, item := range head.Items {
			if err := a.read(item, of); err != nil {
				return fmt.Errorf("items[%d]: %w", i, err)
			}
		}
		return nil
	}
	return fmt.Errorf("kind %q; want Policy, or AuditSink and AuditClass, or a List of them", head.Kind)
}

func add[T any](list *[]*T, document []byte) error {
	object := new(T)
	if err := yaml.UnmarshalStrict(document, object); err != nil {
		return err
	}
	*list = append(*list, object)
	return nil
}

// sink is the only one, or the one with a name.
func (a *auditObjects) sink(name string) (*auditv1alpha1.AuditSink, error) {
	if len(a.sinks) == 1 {
		return a.sinks[0], nil
	}
	var names []string
	for _, s := range a.sinks {
		if s.Name == name {
			return s, nil
		}
		names = append(names, s.Name)
	}
	slices.Sort(names)
	return nil, fmt.Errorf("more than one AuditSink: choose one of %s with --name", strings.Join(names, ", "))
}
