package explorer

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
)

// schemas are the OpenAPI documents that the server has shown, by group and version.
type schemas struct {
	mu        sync.Mutex
	documents map[schema.GroupVersion]map[string]*openSchema
}

// openSchema is what completion needs of a schema.
type openSchema struct {
	Ref         string                 `json:"$ref"`
	Type        string                 `json:"type"`
	Format      string                 `json:"format"`
	Description string                 `json:"description"`
	Properties  map[string]*openSchema `json:"properties"`
	Items       *openSchema            `json:"items"`
	AllOf       []*openSchema          `json:"allOf"`
	Additional  json.RawMessage        `json:"additionalProperties"`
	IntOrString bool                   `json:"x-kubernetes-int-or-string"`
	Kinds       []struct {
		Group, Version, Kind string
	} `json:"x-kubernetes-group-version-kind"`
}

// fieldEntry is a field to choose.
type fieldEntry struct {
	Name        string `json:"name"`
	Type        string `json:"type"`
	Description string `json:"description,omitempty"`
}

type fieldsQuestion struct {
	Resource string `json:"resource"`
	// Path is where the fields are looked for: spec.template.
	Path string `json:"path"`
}

// fields are the fields below a path of a resource, with their types, by the server's own schema.
func (h *handler) fields(_ *http.Request, q fieldsQuestion) ([]fieldEntry, error) {
	_, resource, gv, err := h.client(objectQuestion{Resource: q.Resource})
	if err != nil {
		return nil, err
	}
	document, err := h.document(gv)
	if err != nil {
		return nil, err
	}
	at := kindIn(document, gv.WithKind(resource.Kind))
	for step := range strings.SplitSeq(q.Path, ".") {
		if step = strings.TrimSpace(step); step != "" {
			at = below(document, at, step)
		}
	}
	entries := []fieldEntry{}
	for name, s := range properties(document, at) {
		entries = append(entries, fieldEntry{Name: name, Type: typeOf(document, s), Description: firstSentence(s.Description)})
	}
	slices.SortFunc(entries, func(a, b fieldEntry) int { return strings.Compare(a.Name, b.Name) })
	return entries, nil
}

func (h *handler) document(gv schema.GroupVersion) (map[string]*openSchema, error) {
	h.schemas.mu.Lock()
	defer h.schemas.mu.Unlock()
	if document := h.schemas.documents[gv]; document != nil {
		return document, nil
	}
	client, err := discovery.NewDiscoveryClientForConfig(h.Rest)
	if err != nil {
		return nil, err
	}
	paths, err := client.OpenAPIV3().Paths()
	if err != nil {
		return nil, err
	}
	name := "apis/" + gv.String()
	if gv.Group == "" {
		name = "api/" + gv.Version
	}
	entry := paths[name]
	if entry == nil {
		return nil, refused{http.StatusNotFound, "the server has no schema for " + gv.String()}
	}
	data, err := entry.Schema("application/json")
	if err != nil {
		return nil, err
	}
	var open struct {
		Components struct {
			Schemas map[string]*openSchema `json:"schemas"`
		} `json:"components"`
	}
	if err := json.Unmarshal(data, &open); err != nil {
		return nil, fmt.Errorf("the schema of %s cannot be read: %w", gv, err)
	}
	if h.schemas.documents == nil || len(h.schemas.documents) > 50 {
		h.schemas.documents = map[schema.GroupVersion]map[string]*openSchema{}
	}
	h.schemas.documents[gv] = open.Components.Schemas
	return open.Components.Schemas, nil
}

func kindIn(document map[string]*openSchema, kind schema.GroupVersionKind) *openSchema {
	for _, s := range document {
		for _, k := range s.Kinds {
			if k.Group == kind.Group && k.Version == kind.Version && k.Kind == kind.Kind && s.Properties != nil {
				return s
			}
		}
	}
	return nil
}

// resolved follows references, as far as they lead somewhere.
func resolved(document map[string]*openSchema, s *openSchema) *openSchema {
	for range 8 {
		switch {
		case s == nil:
			return nil
		case s.Ref != "":
			s = document[strings.TrimPrefix(s.Ref, "#/components/schemas/")]
		case len(s.AllOf) == 1 && len(s.Properties) == 0:
			s = s.AllOf[0]
		default:
			return s
		}
	}
	return s
}

// properties are the fields of an object, or of the elements of a list.
func properties(document map[string]*openSchema, s *openSchema) map[string]*openSchema {
	s = resolved(document, s)
	if s != nil && s.Items != nil {
		s = resolved(document, s.Items)
	}
	if s == nil {
		return nil
	}
	return s.Properties
}

func below(document map[string]*openSchema, s *openSchema, name string) *openSchema {
	return properties(document, s)[name]
}

// typeOf is the type of a field in CEL's words.
func typeOf(document map[string]*openSchema, s *openSchema) string {
	whole := resolved(document, s)
	if whole == nil {
		return "dyn"
	}
	switch whole.Type {
	case "integer":
		return "int"
	case "number":
		return "double"
	case "boolean":
		return "bool"
	case "string":
		return "string"
	case "array":
		return "list(" + typeOf(document, whole.Items) + ")"
	case "object":
		if len(whole.Properties) == 0 && len(whole.Additional) > 0 {
			var values openSchema
			if json.Unmarshal(whole.Additional, &values) == nil {
				return "map(string, " + typeOf(document, &values) + ")"
			}
		}
		return "object"
	}
	if whole.IntOrString || whole.Format == "int-or-string" {
		return "int or string"
	}
	return "dyn"
}

func firstSentence(text string) string {
	sentence, _, _ := strings.Cut(text, ". ")
	if len(sentence) > 200 {
		sentence = sentence[:200] + "…"
	}
	return strings.ToValidUTF8(strings.Join(strings.Fields(sentence), " "), "")
}
