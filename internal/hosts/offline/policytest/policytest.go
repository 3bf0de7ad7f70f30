package policytest

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	"proviso.dev/proviso/internal/hosts/offline"
	"proviso.dev/proviso/internal/state/source"
)

// Test says what policy is expected to decide.
type Test struct {
	metav1.TypeMeta `json:",inline"`
	Metadata        struct {
		Name string `json:"name"`
	} `json:"metadata"`
	// Policies are globs beside the file. Documents of the file that are not tests count too.
	Policies []string `json:"policies,omitempty"`
	// MasterNamespace is the namespace whose policy holds everywhere, if it is not that of the command.
	MasterNamespace string `json:"masterNamespace,omitempty"`
	Cases           []Case `json:"cases"`

	file  string
	paths []string
	texts []source.Text
}

// Case is one request and what becomes of it.
type Case struct {
	Name       string              `json:"name"`
	User       string              `json:"user,omitempty"`
	Groups     []string            `json:"groups,omitempty"`
	Extra      map[string][]string `json:"extra,omitempty"`
	Verb       string              `json:"verb"`
	Resource   string              `json:"resource"`
	Namespace  string              `json:"namespace,omitempty"`
	ObjectName string              `json:"objectName,omitempty"`
	Object     map[string]any      `json:"object,omitempty"`
	OldObject  map[string]any      `json:"oldObject,omitempty"`
	// At is the instant of the request, if it is not that of the command.
	At     *metav1.Time     `json:"at,omitempty"`
	Expect Expectation      `json:"expect"`
	Each   []map[string]any `json:"each,omitempty"`
}

// Expectation is what a case expects: Allow, Deny (refused, for whatever reason) or Conditional; by which rule; with
// which words.
type Expectation struct {
	Decision string `json:"decision"`
	Rule     string `json:"rule,omitempty"`
	Message  string `json:"message,omitempty"`
}

// Find reads every *.test.yaml at or below the paths.
func Find(paths []string) (tests []*Test, err error) {
	for _, path := range paths {
		var files []string
		err := filepath.WalkDir(path, func(name string, entry fs.DirEntry, err error) error {
			if err == nil && !entry.IsDir() && source.IsTest(name) {
				files = append(files, name)
			}
			return err
		})
		if err != nil {
			return nil, err
		}
		for _, file := range files {
			found, err := readTests(file)
			if err != nil {
				return nil, err
			}
			tests = append(tests, found...)
		}
	}
	if len(tests) == 0 {
		return nil, fmt.Errorf("no policy tests in %s: want files *.test.yaml of kind PolicyTest", strings.Join(paths, ", "))
	}
	return tests, nil
}

// readTests reads the tests of one file.
func readTests(file string) (tests []*Test, err error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var policy []source.Text
	documents := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(data)))
	for n := 1; ; n++ {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		place := fmt.Sprintf("%s, document %d", file, n)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", place, err)
		}
		var kind metav1.TypeMeta
		if err := yaml.Unmarshal(document, &kind); err != nil {
			return nil, fmt.Errorf("%s: %w", place, err)
		}
		if kind.Kind != "PolicyTest" {
			policy = append(policy, source.Text{Name: place, Data: document})
			continue
		}
		test := &Test{file: file}
		if kind.APIVersion != offline.ToolsVersion {
			return nil, fmt.Errorf("%s: apiVersion: want %s, not %q", place, offline.ToolsVersion, kind.APIVersion)
		}
		if err := yaml.UnmarshalStrict(document, test); err != nil {
			return nil, fmt.Errorf("%s: %w", place, clear(err))
		}
		if err := test.complete(); err != nil {
			return nil, fmt.Errorf("%s: %w", place, err)
		}
		tests = append(tests, test)
	}
	for _, test := range tests {
		test.texts = policy
	}
	return tests, nil
}

// complete checks a test, finds its policies and writes out its tables.
func (t *Test) complete() error {
	for i, glob := range t.Policies {
		found, err := filepath.Glob(filepath.Join(filepath.Dir(t.file), glob))
		if err == nil && len(found) == 0 {
			err = errors.New("no such file")
		}
		if err != nil {
			return fmt.Errorf("policies[%d]: %s: %w", i, glob, err)
		}
		t.paths = append(t.paths, slices.DeleteFunc(found, source.IsTest)...)
	}
	var cases []Case
	for i, c := range t.Cases {
		rows, err := c.rows()
		at := fmt.Sprintf("cases[%d]", i)
		if c.Name != "" {
			at += fmt.Sprintf(" (%s)", c.Name)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", at, clear(err))
		}
		for _, row := range rows {
			if err := row.check(); err != nil {
				return fmt.Errorf("%s: %w", at, err)
			}
			cases = append(cases, row)
		}
	}
	if len(cases) == 0 {
		return errors.New("cases: there are none")
	}
	t.Cases = cases
	return nil
}

func (c *Case) check() error {
	switch {
	case c.Verb == "" || c.Resource == "":
		return errors.New("verb and resource are needed")
	case c.User == "" && len(c.Groups) == 0:
		return errors.New("user: name a user or groups")
	case !slices.Contains(decisions, c.Expect.Decision):
		return wrongDecision(c.Expect.Decision)
	}
	if c.Name == "" {
		c.Name = strings.TrimSpace(c.User + " " + c.Verb + " " + c.Resource)
	}
	return nil
}

// rows are the cases of a table: one for each set of variables, with $(name) replaced. A text that is nothing but a
// variable becomes its value, of whatever type.
func (c Case) rows() ([]Case, error) {
	if len(c.Each) == 0 {
		return []Case{c}, nil
	}
	variables := c.Each
	c.Each = nil
	data, err := json.Marshal(c)
	if err != nil {
		return nil, err
	}
	var rows []Case
	for i, vars := range variables {
		var tree map[string]any
		if err := json.Unmarshal(data, &tree); err != nil {
			return nil, err
		}
		text, err := json.Marshal(replaced(tree, vars))
		if err != nil {
			return nil, err
		}
		var row Case
		strict := json.NewDecoder(bytes.NewReader(text)) // YAML would take most of the time of a large table
		strict.DisallowUnknownFields()
		if err := strict.Decode(&row); err != nil {
			return nil, fmt.Errorf("each[%d]: %w", i, err)
		}
		if row.Name == c.Name {
			row.Name = fmt.Sprintf("%s [%d]", c.Name, i)
		}
		rows = append(rows, row)
	}
	return rows, nil
}

func replaced(tree any, vars map[string]any) any {
	switch v := tree.(type) {
	case string:
		for name, value := range vars {
			if v == "$("+name+")" {
				return value
			}
			v = strings.ReplaceAll(v, "$("+name+")", fmt.Sprint(value))
		}
		return v
	case []any:
		for i := range v {
			v[i] = replaced(v[i], vars)
		}
	case map[string]any:
		for key, value := range v {
			v[key] = replaced(value, vars)
		}
	}
	return tree
}
