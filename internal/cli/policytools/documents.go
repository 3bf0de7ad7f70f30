package policytools

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	"proviso.dev/proviso/internal/state/source"
)

// document is one object of a file.
type document struct {
	source.Text
	object *unstructured.Unstructured
}

// key tells objects apart.
func (d document) key() string {
	gvk := d.object.GroupVersionKind()
	if gvk.Kind == "APIResourceList" { // has no name
		served, _, _ := unstructured.NestedString(d.object.Object, "groupVersion")
		return gvk.Kind + " " + served
	}
	return gvk.GroupKind().String() + " " + strings.TrimPrefix(d.object.GetNamespace()+"/"+d.object.GetName(), "/")
}

// readDocuments reads the objects of files, of directories with what is below them, and of standard input (-).
func readDocuments(paths []string, stdin io.Reader) (all []document, err error) {
	for _, path := range paths {
		if path == "-" {
			data, err := io.ReadAll(stdin)
			if err != nil {
				return nil, err
			}
			if all, err = appendDocuments(all, "standard input", data); err != nil {
				return nil, err
			}
			continue
		}
		err := filepath.WalkDir(path, func(name string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || name != path && !slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(name)) || source.IsTest(name) {
				return err
			}
			data, err := os.ReadFile(name) //nolint:gosec // the caller reads his own files, with his own rights
			if err == nil {
				all, err = appendDocuments(all, name, data)
			}
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return all, nil
}

func appendDocuments(all []document, name string, data []byte) ([]document, error) {
	reader := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(data)))
	for n := 1; ; n++ {
		text, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		place := fmt.Sprintf("%s, document %d", name, n)
		var content map[string]any
		if err == nil {
			content, err = source.Decode(text)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", place, err)
		}
		if len(content) == 0 {
			continue
		}
		object := &unstructured.Unstructured{Object: content}
		if object.GetKind() == "" || object.GetAPIVersion() == "" {
			return nil, fmt.Errorf("%s: this is no Kubernetes object: it has no kind or no apiVersion", place)
		}
		items, isList := content["items"].([]any)
		if !isList || !strings.HasSuffix(object.GetKind(), "List") {
			all = append(all, document{source.Text{Name: place, Data: text, Object: object, Read: &source.Reading{}}, object})
			continue
		}
		for i, item := range items {
			content, ok := item.(map[string]any)
			if !ok {
				return nil, fmt.Errorf("%s: items[%d] is no object", place, i)
			}
			one := &unstructured.Unstructured{Object: content}
			all = append(all, document{source.Text{Name: fmt.Sprintf("%s, item %d", place, i), Object: one, Read: &source.Reading{}}, one})
		}
	}
}

// text is the document as YAML.
func (d document) text() ([]byte, error) {
	if d.Data != nil {
		return d.Data, nil
	}
	return yaml.Marshal(d.object.Object)
}

func texts(documents []document) (out []source.Text) {
	for _, d := range documents {
		out = append(out, d.Text)
	}
	return out
}
