package crdschema

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"k8s.io/apimachinery/pkg/runtime/serializer/cbor/direct"
	"sigs.k8s.io/yaml"
)

// maxNesting bounds the recursion over a body. The deepest definitions in use have a tenth of it.
const maxNesting = 1000

// document is a decoded body or response. Numbers stay as they are written.
type document struct {
	root any
	// mentions is set if a member anywhere has the name of one of our keys, or one like it.
	mentions bool
	// duplicate is the first member that is written twice. The decoders of the server do not agree on which one counts.
	duplicate string
}

// parseJSON reads one JSON value and nothing else.
func parseJSON(body []byte) (*document, error) {
	d := &document{}
	dec := json.NewDecoder(bytes.NewReader(body))
	dec.UseNumber()
	root, err := d.value(dec, 0)
	if err != nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return nil, err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("there is text after the end of the object")
	}
	d.root = root
	return d, nil
}

func (d *document) value(dec *json.Decoder, depth int) (any, error) {
	if depth > maxNesting {
		return nil, fmt.Errorf("it is nested more than %d levels deep", maxNesting)
	}
	token, err := dec.Token()
	if err != nil {
		return nil, err
	}
	switch token {
	case json.Delim('{'):
		return d.object(dec, depth)
	case json.Delim('['):
		list := []any{}
		for dec.More() {
			v, err := d.value(dec, depth+1)
			if err != nil {
				return nil, err
			}
			list = append(list, v)
		}
		_, err := dec.Token()
		return list, err
	}
	return token, nil
}

func (d *document) object(dec *json.Decoder, depth int) (any, error) {
	m := map[string]any{}
	for dec.More() {
		token, err := dec.Token()
		if err != nil {
			return nil, err
		}
		name, ok := token.(string)
		if !ok {
			return nil, fmt.Errorf("a member has no name")
		}
		if _, again := m[name]; again && d.duplicate == "" {
			d.duplicate = name
		}
		d.mentions = d.mentions || isOurs(name)
		if m[name], err = d.value(dec, depth+1); err != nil {
			return nil, err
		}
	}
	_, err := dec.Token()
	return m, err
}

func mentionsKey(body []byte) bool {
	return bytes.Contains(body, []byte(KeyPrefix)) || bytes.Contains(body, []byte(KeyTemplate))
}

// parseYAML reads the first document of a YAML text, as the server does.
func parseYAML(body []byte) (*document, error) {
	text, err := yaml.YAMLToJSON(body)
	if err != nil {
		return nil, err
	}
	d, err := parseJSON(text)
	if err != nil {
		return nil, err
	}
	// What is written twice is gone from the JSON text, and with it perhaps one of our keys.
	if d.mentions || mentionsKey(body) {
		if _, err := yaml.YAMLToJSONStrict(body); err != nil {
			return nil, err
		}
	}
	return d, nil
}

// parseCBOR reads one CBOR value. A member that is written twice is an error, as it is for the server.
func parseCBOR(body []byte) (*document, error) {
	d := &document{}
	if err := direct.Unmarshal(body, &d.root); err != nil {
		return nil, err
	}
	return d, d.examine(d.root, 0)
}

// examine does for a decoded value what reading a text does on the way.
func (d *document) examine(value any, depth int) error {
	if depth > maxNesting {
		return fmt.Errorf("it is nested more than %d levels deep", maxNesting)
	}
	switch v := value.(type) {
	case map[string]any:
		for name, below := range v {
			d.mentions = d.mentions || isOurs(name)
			if err := d.examine(below, depth+1); err != nil {
				return err
			}
		}
	case []any:
		for _, below := range v {
			if err := d.examine(below, depth+1); err != nil {
				return err
			}
		}
	}
	return nil
}

// at walks down through objects. It returns nil where there is none.
func at(root any, names ...string) map[string]any {
	for _, name := range names {
		m, _ := root.(map[string]any)
		root = m[name]
	}
	m, _ := root.(map[string]any)
	return m
}

// versionsOf lists the versions of a definition, and whether it says anything about them.
func versionsOf(root any) ([]any, bool) {
	value, ok := at(root, "spec")["versions"]
	list, _ := value.([]any)
	return list, ok
}
