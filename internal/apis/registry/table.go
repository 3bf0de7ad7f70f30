package registry

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metatable "k8s.io/apimachinery/pkg/api/meta/table"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// column is one column of `kubectl get`.
type column[T object] struct {
	name        string
	description string
	// kind is the OpenAPI type of the cells; "" is string.
	kind string
	// wide shows the column with -o wide only.
	wide bool
	cell func(T) any
}

// table prints a kind: its name, its columns and, unless it is ageless, its age.
type table[T object] struct {
	columns  []column[T]
	resource schema.GroupResource
	// ageless is set for what was never created.
	ageless bool
}

// ConvertToTable prints an object or a list.
func (t table[T]) ConvertToTable(_ context.Context, obj runtime.Object, tableOptions runtime.Object) (*metav1.Table, error) {
	var out metav1.Table
	rows, err := metatable.MetaToTableRow(obj, func(obj runtime.Object, _ metav1.Object, name, age string) ([]any, error) {
		o, ok := obj.(T)
		if !ok {
			return nil, fmt.Errorf("%s: cannot print an object of type %T", t.resource, obj)
		}
		cells := []any{name}
		for _, c := range t.columns {
			cells = append(cells, c.cell(o))
		}
		if t.ageless {
			return cells, nil
		}
		return append(cells, age), nil
	})
	if err != nil {
		return nil, err
	}
	out.Rows = rows
	if list, err := meta.ListAccessor(obj); err == nil {
		out.ResourceVersion = list.GetResourceVersion()
		out.Continue = list.GetContinue()
		out.RemainingItemCount = list.GetRemainingItemCount()
	} else if one, err := meta.CommonAccessor(obj); err == nil {
		out.ResourceVersion = one.GetResourceVersion()
	}
	if opts, ok := tableOptions.(*metav1.TableOptions); !ok || !opts.NoHeaders {
		out.ColumnDefinitions = t.headers()
	}
	return &out, nil
}

func (t table[T]) headers() []metav1.TableColumnDefinition {
	headers := []metav1.TableColumnDefinition{
		{Name: "Name", Type: "string", Format: "name", Description: "The name of the object."},
	}
	for _, c := range t.columns {
		h := metav1.TableColumnDefinition{Name: c.name, Type: "string", Description: c.description}
		if c.kind != "" {
			h.Type = c.kind
		}
		if c.wide {
			h.Priority = 1
		}
		headers = append(headers, h)
	}
	if t.ageless {
		return headers
	}
	return append(headers, metav1.TableColumnDefinition{Name: "Age", Type: "string", Description: "The time since the object was created."})
}

// conditionCell prints a condition: its status, or its reason if it is not True.
func conditionCell(conditions []metav1.Condition, kind string) string {
	for _, c := range conditions {
		switch {
		case c.Type != kind:
		case c.Status == metav1.ConditionTrue:
			return "True"
		case c.Reason != "":
			return string(c.Status) + " (" + c.Reason + ")"
		default:
			return string(c.Status)
		}
	}
	return "Unknown"
}
