package cli

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"proviso.dev/proviso/internal/engine/questions"
	"proviso.dev/proviso/internal/platform/editdistance"
	"proviso.dev/proviso/internal/platform/terminal"
)

// target is what a question is about, as the user names it and the server serves it.
type target struct {
	resource    schema.GroupVersionResource
	subresource string
	name        string
	namespaced  bool
	// path is set for a question about a URL that is not a resource.
	path string
}

// all stands for every resource, or every verb.
const all = "*"

// isVirtual reports whether rules name a resource that no server serves: users to impersonate, signers whose
// certificates a user approves.
func isVirtual(gr schema.GroupResource) bool {
	return slices.ContainsFunc(questions.Virtual(), func(v questions.Resource) bool { return v.Group == gr.Group && v.Resource == gr.Resource })
}

// parseTarget reads what `kubectl auth can-i` takes behind the verb: TYPE, TYPE/NAME, a /path or *, and TYPE NAME
// besides. A slash is always followed by a name: the subresource is a flag of its own.
func (c *client) parseTarget(args []string, subresource string) (target, error) {
	var t target
	first := args[0]
	if strings.HasPrefix(first, "/") {
		switch {
		case subresource != "":
			return t, errors.New("--subresource cannot be used with a path")
		case len(args) > 1:
			return t, fmt.Errorf("%s %s: a path has no name; leave %q out", first, args[1], args[1])
		}
		return target{path: first}, nil
	}
	resource, name, slash := strings.Cut(first, "/")
	switch {
	case slash && name == "":
		return t, fmt.Errorf("%s: the name after the slash is missing; write TYPE/NAME", first)
	case slash && len(args) > 1:
		return t, fmt.Errorf("%s %s: there are two names; write %s/%s, and --subresource for a subresource", first, args[1], resource, args[1])
	case len(args) > 1:
		name = args[1]
	}
	t.name, t.subresource = name, subresource
	if resource == all {
		t.resource.Resource, t.namespaced = all, true
		return t, nil
	}
	if gr := schema.ParseGroupResource(strings.ToLower(resource)); isVirtual(gr) {
		t.resource = gr.WithVersion("")
		return t, nil
	}
	if err := c.resolve(&t, resource); err != nil {
		return t, err
	}
	return t, c.checkSubresource(t, slash)
}

// resolve finds the resource as kubectl does, with its short names.
func (c *client) resolve(t *target, resource string) error {
	mapper, err := c.config.ToRESTMapper()
	if err != nil {
		return err
	}
	gvr, gr := schema.ParseResourceArg(strings.ToLower(resource))
	if gvr == nil {
		gvr = &schema.GroupVersionResource{Group: gr.Group, Resource: gr.Resource}
	}
	if t.resource, err = mapper.ResourceFor(*gvr); err != nil {
		if t.resource, err = mapper.ResourceFor(gr.WithVersion("")); meta.IsNoMatchError(err) {
			return fmt.Errorf("the server does not serve %q%s; `kubectl api-resources` lists what it serves", resource, c.suggest(gr.Resource))
		} else if err != nil {
			return err
		}
	}
	kind, err := mapper.KindFor(t.resource)
	if err != nil {
		return err
	}
	mapping, err := mapper.RESTMapping(kind.GroupKind(), kind.Version)
	if err != nil {
		return err
	}
	t.namespaced = mapping.Scope.Name() == meta.RESTScopeNameNamespace
	return nil
}

// checkSubresource refuses a subresource that is not served: whatever the answer were, it would be about nothing.
func (c *client) checkSubresource(t target, slash bool) error {
	if t.subresource == "" && !slash || t.subresource == all {
		return nil
	}
	served, err := c.subresources(t.resource)
	switch {
	case err != nil && t.subresource == "":
		return nil // only a hint is lost
	case err != nil:
		return err
	case t.subresource == "" && slices.Contains(served, t.name):
		terminal.Fprintf(c.errOut, "Warning: %s/%s is the object named %q; for the subresource write %s --subresource %s\n",
			t.resource.Resource, t.name, t.name, t.resource.GroupResource(), t.name)
		return nil
	case t.subresource == "" || slices.Contains(served, t.subresource):
		return nil
	case len(served) == 0:
		return fmt.Errorf("--subresource %s: %s have no subresources; leave it out", t.subresource, t.resource.GroupResource())
	}
	return fmt.Errorf("--subresource %s: not served for %s; served are %s", t.subresource, t.resource.GroupResource(), strings.Join(served, ", "))
}

// subresources are those that are served for a resource.
func (c *client) subresources(resource schema.GroupVersionResource) ([]string, error) {
	discovery, err := c.config.ToDiscoveryClient()
	if err != nil {
		return nil, err
	}
	list, err := discovery.ServerResourcesForGroupVersion(resource.GroupVersion().String())
	if err != nil {
		return nil, err
	}
	var found []string
	for _, r := range list.APIResources {
		if sub, ok := strings.CutPrefix(r.Name, resource.Resource+"/"); ok {
			found = append(found, sub)
		}
	}
	slices.Sort(found)
	return found, nil
}

// suggest names the served resource that was probably meant.
func (c *client) suggest(name string) string {
	best, distance := "", 3
	for _, r := range c.resourceNames() {
		plain, _, _ := strings.Cut(r, ".")
		if d := editdistance.Distance(name, plain); d < distance {
			best, distance = r, d
		}
	}
	if best == "" {
		return ""
	}
	return fmt.Sprintf(" (did you mean %q?)", best)
}

// qualified is the resource as our reviews take it: pods, deployments.apps, pods/exec, /metrics.
func (t target) qualified() string {
	if t.path != "" {
		return t.path
	}
	name := t.resource.GroupResource().String()
	if t.subresource != "" {
		name += "/" + t.subresource
	}
	return name
}
