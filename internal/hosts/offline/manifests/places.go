package manifests

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	goyaml "sigs.k8s.io/yaml/goyaml.v3"

	"proviso.dev/proviso/internal/analysis/lint"
)

// Place is where something stands in a file. Lines and columns begin with 1.
type Place struct {
	File   string `json:"file,omitempty"`
	Line   int    `json:"line,omitempty"`
	Column int    `json:"column,omitempty"`
}

func (p Place) String() string {
	if p.File == "" {
		return "-"
	}
	return fmt.Sprintf("%s:%d:%d", p.File, p.Line, p.Column)
}

// Places finds objects in files.
type Places struct {
	objects map[lint.Object]node
	// shipped are those that Kubernetes makes by itself.
	shipped map[lint.Object]bool
}

// Locate finds the objects of files or, without any, of documents of a server.
func Locate(paths []string, documents []Document) (*Places, error) {
	p := &Places{objects: map[lint.Object]node{}, shipped: map[lint.Object]bool{}}
	if len(paths) > 0 {
		return p, p.read(paths)
	}
	for _, d := range documents {
		text, err := d.YAML()
		if err == nil {
			err = p.file(d.Name, text)
		}
		if err != nil {
			return nil, err
		}
		if d.Shipped() {
			kind := d.Object.GroupVersionKind()
			p.shipped[lint.Object{Group: kind.Group, Kind: kind.Kind, Namespace: d.Object.GetNamespace(), Name: d.Object.GetName()}] = true
		}
	}
	return p, nil
}

// Shipped reports whether Kubernetes makes an object of the server by itself.
func (p *Places) Shipped(o lint.Object) bool { return p.shipped[o] }

type node struct {
	file string
	*goyaml.Node
}

// read takes in the objects of files, and of directories with what is below them.
func (p *Places) read(paths []string) error {
	for _, path := range paths {
		if err := eachFile(path, p.file); err != nil {
			return err
		}
	}
	return nil
}

func (p *Places) file(name string, data []byte) error {
	decoder := goyaml.NewDecoder(bytes.NewReader(data))
	for {
		var document goyaml.Node
		err := decoder.Decode(&document)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if len(document.Content) > 0 {
			p.object(node{name, document.Content[0]})
		}
	}
}

func (p *Places) object(n node) {
	text := func(path ...any) string {
		if found, whole := descend(n.Node, path); whole {
			return found.Value
		}
		return ""
	}
	kind := text("kind")
	if items, whole := descend(n.Node, []any{"items"}); whole && strings.HasSuffix(kind, "List") {
		for _, item := range items.Content {
			p.object(node{n.file, item})
		}
		return
	}
	group, _, has := strings.Cut(text("apiVersion"), "/")
	if !has {
		group = ""
	}
	p.objects[lint.Object{Group: group, Kind: kind, Namespace: text("metadata", "namespace"), Name: text("metadata", "name")}] = n
}

// descend follows a path as far as it goes, and reports whether that was all of it.
func descend(n *goyaml.Node, path []any) (*goyaml.Node, bool) {
	for _, step := range path {
		for n.Kind == goyaml.AliasNode {
			n = n.Alias
		}
		next := (*goyaml.Node)(nil)
		switch step := step.(type) {
		case int:
			if n.Kind == goyaml.SequenceNode && step < len(n.Content) {
				next = n.Content[step]
			}
		case string:
			for i := 0; n.Kind == goyaml.MappingNode && i+1 < len(n.Content); i += 2 {
				if n.Content[i].Value == step {
					next = n.Content[i+1]
				}
			}
		}
		if next == nil {
			return n, false
		}
		n = next
	}
	return n, true
}

// Of is where a remark points to: in the object, or in the container that holds it.
func (p *Places) Of(r lint.Remark) Place {
	if n, ok := p.objects[r.Object]; ok {
		found, _ := descend(n.Node, r.Path)
		return Place{n.file, found.Line, found.Column}
	}
	for _, inside := range []struct{ kind, of, field string }{{"Role", "Policy", "roles"}, {"RoleBinding", "PolicyBinding", "roleBindings"}} {
		if r.Object.Group != "authorization.proviso.dev" || r.Object.Kind != inside.kind {
			continue
		}
		for object, n := range p.objects {
			if object.Kind != inside.of || object.Namespace != r.Object.Namespace {
				continue
			}
			if entry, whole := descend(n.Node, []any{inside.field, r.Object.Name}); whole {
				found, _ := descend(entry, r.Path)
				return Place{n.file, found.Line, found.Column}
			}
		}
	}
	return Place{}
}
