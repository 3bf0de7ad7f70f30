package policytools

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	goyaml "sigs.k8s.io/yaml/goyaml.v3"

	"proviso.dev/proviso/internal/analysis/lint"
	"proviso.dev/proviso/internal/state/source"
)

// place is where something stands in a file. Lines and columns begin with 1.
type place struct {
	File   string `json:"file,omitempty"`
	Line   int    `json:"line,omitempty"`
	Column int    `json:"column,omitempty"`
}

func (p place) String() string {
	if p.File == "" {
		return "-"
	}
	return fmt.Sprintf("%s:%d:%d", p.File, p.Line, p.Column)
}

// places finds objects in files.
type places struct {
	objects map[lint.Object]node
	// shipped are those that Kubernetes makes by itself.
	shipped map[lint.Object]bool
}

// all takes in the objects of files or, without any, documents of a server.
func (p *places) all(paths []string, documents []document) error {
	if len(paths) > 0 {
		return p.read(paths)
	}
	p.objects, p.shipped = map[lint.Object]node{}, map[lint.Object]bool{}
	for _, d := range documents {
		text, err := d.text()
		if err == nil {
			err = p.file(d.Text.Name, text)
		}
		if err != nil {
			return err
		}
		if d.object.GetLabels()["kubernetes.io/bootstrapping"] != "" {
			kind := d.object.GroupVersionKind()
			p.shipped[lint.Object{Group: kind.Group, Kind: kind.Kind, Namespace: d.object.GetNamespace(), Name: d.object.GetName()}] = true
		}
	}
	return nil
}

type node struct {
	file string
	*goyaml.Node
}

// read takes in the objects of files, and of directories with what is below them.
func (p *places) read(paths []string) error {
	p.objects = map[lint.Object]node{}
	for _, path := range paths {
		err := filepath.WalkDir(path, func(name string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || name != path && !slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(name)) || source.IsTest(name) {
				return err
			}
			data, err := os.ReadFile(name) //nolint:gosec // the caller reads his own files, with his own rights
			if err != nil {
				return err
			}
			return p.file(name, data)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (p *places) file(name string, data []byte) error {
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

func (p *places) object(n node) {
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

// descend follows a path as far as it goes, and tells whether that was all of it.
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

// of is where a remark points to: in the object, or in the container that holds it.
func (p *places) of(r lint.Remark) place {
	if n, ok := p.objects[r.Object]; ok {
		found, _ := descend(n.Node, r.Path)
		return place{n.file, found.Line, found.Column}
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
				return place{n.file, found.Line, found.Column}
			}
		}
	}
	return place{}
}
