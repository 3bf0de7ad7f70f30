package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// question is the request in question.
type question struct {
	Verb          string `json:"verb" jsonschema:"the verb, such as get, list, create, update, patch or delete"`
	Resource      string `json:"resource" jsonschema:"the resource with its group, such as pods or deployments.apps, or a path such as /metrics"`
	Name          string `json:"name,omitempty" jsonschema:"the name of the object"`
	Namespace     string `json:"namespace,omitempty" jsonschema:"the namespace; the one of the kubeconfig if it is left out"`
	AllNamespaces bool   `json:"allNamespaces,omitempty" jsonschema:"ask about every namespace at once"`
	Subresource   string `json:"subresource,omitempty" jsonschema:"the subresource, such as log, exec, status or scale"`
}

// ask runs the command for a question.
func (t *tools) ask(ctx context.Context, in, command string, q question, flags ...string) (string, error) {
	if strings.Contains(q.Name, "/") {
		return "", fmt.Errorf("name: %q is not the name of an object", q.Name)
	}
	if q.Namespace != "" {
		flags = append(flags, "--namespace="+q.Namespace)
	}
	if q.AllNamespaces {
		flags = append(flags, "--all-namespaces")
	}
	if q.Subresource != "" {
		flags = append(flags, "--subresource="+q.Subresource)
	}
	resource := q.Resource
	if q.Name != "" {
		resource += "/" + q.Name
	}
	return t.command(ctx, in, command, flags, q.Verb, resource)
}

func (t *tools) canI(ctx context.Context, q question) (string, error) {
	return t.ask(ctx, "", "can-i", q)
}

func (t *tools) whoCan(ctx context.Context, q question) (string, error) {
	return t.ask(ctx, "", "who-can", q, "--system")
}

// explanation is a question about an object, too.
type explanation struct {
	question
	Object string `json:"object,omitempty" jsonschema:"the object to write, as YAML or JSON, for conditions on it"`
	Stored bool   `json:"stored,omitempty" jsonschema:"evaluate conditions on the object as it is stored; needs the right to get it"`
}

func (t *tools) explain(ctx context.Context, e explanation) (string, error) {
	var flags []string
	if err := fits(e.Object); err != nil {
		return "", fmt.Errorf("object: %w", err)
	}
	if e.Object != "" {
		flags = append(flags, "--filename=-")
	}
	if e.Stored {
		flags = append(flags, "--stored")
	}
	return t.ask(ctx, e.Object, "explain", e.question, flags...)
}

// change is a change of policy that is asked about.
type change struct {
	Manifests string `json:"manifests" jsonschema:"roles and bindings of RBAC or Policy, as YAML documents"`
	Delete    bool   `json:"delete,omitempty" jsonschema:"plan to delete the objects instead of applying them"`
}

func (t *tools) plan(ctx context.Context, c change) (string, error) {
	if err := fits(c.Manifests); err != nil {
		return "", fmt.Errorf("manifests: %w", err)
	}
	flags := []string{"--filename=-"}
	if c.Delete {
		flags = append(flags, "--delete")
	}
	return t.command(ctx, c.Manifests, "plan", flags)
}

// policy is the input of lint.
type policy struct {
	Manifests string `json:"manifests,omitempty" jsonschema:"YAML documents to look at; the policy of the cluster if they are left out"`
}

// lint reads files without a server, and a server without files.
func (t *tools) lint(ctx context.Context, p policy) (string, error) {
	if p.Manifests == "" {
		return t.command(ctx, "", "lint", nil)
	}
	if err := fits(p.Manifests); err != nil {
		return "", fmt.Errorf("manifests: %w", err)
	}
	dir, err := os.MkdirTemp(t.access.dir, "lint-")
	if err != nil {
		return "", err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	file := filepath.Join(dir, "manifests.yaml")
	if err := os.WriteFile(file, []byte(p.Manifests), 0o600); err != nil {
		return "", err
	}
	text, err := t.execute(ctx, []string{"lint", file}, "")
	return strings.ReplaceAll(text, dir+string(filepath.Separator), ""), err
}

func fits(text string) error {
	if len(text) > maxManifests {
		return fmt.Errorf("%d bytes, and at most %d can be sent", len(text), maxManifests)
	}
	return nil
}
