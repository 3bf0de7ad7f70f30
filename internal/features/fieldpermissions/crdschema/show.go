package crdschema

import "strings"

// show puts what is stored in the annotation back where it was written: in a definition, in a list of them, in an event
// of a watch. A table or metadata has no schema to put it into, and only loses the annotation.
func show(root any) {
	m, ok := root.(map[string]any)
	if !ok {
		return
	}
	if strings.HasSuffix(text(m["kind"]), "List") {
		list, _ := m["items"].([]any)
		for _, item := range list {
			showOne(item)
		}
		return
	}
	if text(m["kind"]) == "Table" {
		rows, _ := m["rows"].([]any)
		for _, row := range rows {
			showOne(at(row, "object"))
		}
		return
	}
	if event, ok := m["object"].(map[string]any); ok && m["type"] != nil {
		show(event)
		return
	}
	showOne(m)
}

func text(v any) string {
	s, _ := v.(string)
	return s
}

func showOne(root any) {
	metadata := at(root, "metadata")
	annotations := at(metadata, "annotations")
	showApplied(root)
	stored, ok := annotations[Annotation].(string)
	if !ok {
		return
	}
	delete(annotations, Annotation)
	if len(annotations) == 0 {
		delete(metadata, "annotations")
	}
	r, _ := decode(stored) // what cannot be read cannot be shown; the log says so when the table of permissions is made
	list, _ := versionsOf(root)
	for _, v := range list {
		schema := at(v, "schema", "openAPIV3Schema")
		for place, e := range r[text(at(v)["name"])] {
			node := place.find(schema)
			if node == nil {
				continue
			}
			for key, value := range e {
				node[key] = value
			}
		}
	}
}

// find is the node of a decoded schema at a place, or nil.
func (p place) find(schema map[string]any) map[string]any {
	steps, err := p.steps()
	if err != nil {
		return nil
	}
	for _, s := range steps {
		if s.kind == properties {
			schema = at(schema, properties, s.name)
		} else {
			schema = at(schema, s.kind)
		}
	}
	return schema
}
