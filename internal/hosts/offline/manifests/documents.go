package manifests

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
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	"proviso.dev/proviso/internal/state/source"
)

// Document is one object, of a file or of a server. Its Object is always known.
type Document struct {
	source.Text
}

// Of is an object that is not from a file.
func Of(object *unstructured.Unstructured) Document {
	return Document{source.Text{Name: Key(object), Object: object}}
}

// OfServer are the objects of a server.
func OfServer(objects []*unstructured.Unstructured) (all []Document) {
	for _, object := range objects {
		all = append(all, Document{source.Text{Name: "the server's " + Key(object), Object: object, Read: &source.Reading{}}})
	}
	return all
}

// Key tells objects apart.
func Key(object *unstructured.Unstructured) string {
	gvk := object.GroupVersionKind()
	if gvk.Kind == "APIResourceList" { // has no name
		served, _, _ := unstructured.NestedString(object.Object, "groupVersion")
		return gvk.Kind + " " + served
	}
	return gvk.GroupKind().String() + " " + strings.TrimPrefix(object.GetNamespace()+"/"+object.GetName(), "/")
}

// Key tells the objects of documents apart.
func (d Document) Key() string { return Key(d.Object) }

// IsNamespace reports whether the object is a Namespace.
func (d Document) IsNamespace() bool {
	return d.Object.GroupVersionKind().GroupKind() == schema.GroupKind{Kind: "Namespace"}
}

// LabelShipped is the label of objects that Kubernetes makes by itself.
const LabelShipped = "kubernetes.io/bootstrapping"

// Shipped reports whether Kubernetes makes the object by itself.
func (d Document) Shipped() bool {
	return d.Object.GetLabels()[LabelShipped] != ""
}

// Read reads the objects of files, of directories with what is below them, and of standard input (-).
func Read(paths []string, stdin io.Reader) (all []Document, err error) {
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
		err := eachFile(path, func(name string, data []byte) (err error) {
			all, err = appendDocuments(all, name, data)
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return all, nil
}

// eachFile visits a file, or the manifests below a directory. Policy tests are left out.
func eachFile(path string, visit func(name string, data []byte) error) error {
	return filepath.WalkDir(path, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || name != path && !slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(name)) || source.IsTest(name) {
			return err
		}
		data, err := os.ReadFile(name) //nolint:gosec // callers read their own files, with their own rights
		if err != nil {
			return err
		}
		return visit(name, data)
	})
}

func appendDocuments(all []Document, name string, data []byte) ([]Document, error) {
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
			return nil, fmt.Errorf("%s: this is not a Kubernetes object: it has no kind or no apiVersion", place)
		}
		items, isList := content["items"].([]any)
		if !isList || !strings.HasSuffix(object.GetKind(), "List") {
			all = append(all, Document{source.Text{Name: place, Data: text, Object: object, Read: &source.Reading{}}})
			continue
		}
		for i, item := range items {
			content, ok := item.(map[string]any)
			if !ok {
				return nil, fmt.Errorf("%s: items[%d] is not an object", place, i)
			}
			one := &unstructured.Unstructured{Object: content}
			all = append(all, Document{source.Text{Name: fmt.Sprintf("%s, item %d", place, i), Object: one, Read: &source.Reading{}}})
		}
	}
}

// YAML is the document as YAML.
func (d Document) YAML() ([]byte, error) {
	if d.Data != nil {
		return d.Data, nil
	}
	return yaml.Marshal(d.Object.Object)
}

// Texts are the documents as a host reads them.
func Texts(documents []Document) (out []source.Text) {
	for _, d := range documents {
		out = append(out, d.Text)
	}
	return out
}
