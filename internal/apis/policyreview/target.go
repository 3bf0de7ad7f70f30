package policyreview

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"proviso.dev/proviso/internal/engine/expr"
	"proviso.dev/proviso/internal/engine/questions"
	"proviso.dev/proviso/internal/engine/ruleset"
	"proviso.dev/proviso/internal/engine/whocan"
	"proviso.dev/proviso/internal/state/snapshot"
)

// target finds the resource that a question names: a plural (pods, pods/exec, deployments.apps) or a kind.
func target(served *snapshot.Served, name string) (schema.GroupResource, string, error) {
	main, subresource, _ := strings.Cut(name, "/")
	var found []schema.GroupResource
	if !strings.HasPrefix(main, "-") { // which rules use to take a kind out
		found = served.Kinds().Resolve(main)
	}
	switch len(found) {
	case 0:
		return schema.GroupResource{}, "", fmt.Errorf("%q: no served resource has this name or kind", name)
	case 1:
		return found[0], subresource, nil
	}
	var all []string
	for _, f := range found {
		all = append(all, f.String())
	}
	// The core group is what everybody means by a plain name.
	for _, f := range found {
		if f.Group == "" {
			return f, subresource, nil
		}
	}
	return schema.GroupResource{}, "", fmt.Errorf("%q is ambiguous: say one of %s", name, strings.Join(all, ", "))
}

// question is the request that a review asks about, or what is wrong with the question: a resource, a path, or * for
// all resources, as a SubjectAccessReview of Kubernetes means it.
func question(served *snapshot.Served, u user.Info, namespace, verb, kind, name string) (_ authorizer.AttributesRecord, problem string) {
	switch {
	case strings.HasPrefix(kind, "/") && name != "":
		return authorizer.AttributesRecord{}, fmt.Sprintf("resourceKind %q: a path has no resourceName", kind)
	case strings.HasPrefix(kind, "/"):
		return authorizer.AttributesRecord{User: u, Verb: verb, Path: kind}, ""
	case kind == "*":
		return authorizer.AttributesRecord{User: u, Verb: verb, Namespace: namespace, Resource: kind, Name: name, ResourceRequest: true}, ""
	}
	resource, subresource, err := target(served, kind)
	if err != nil {
		return authorizer.AttributesRecord{}, "resourceKind " + err.Error()
	}
	namespace = questions.Target{Verb: verb, Resource: resource.Resource, Subresource: subresource, Namespace: namespace, Name: name}.InNamespace()
	version := served.PreferredVersion(schema.GroupKind{Group: resource.Group, Kind: served.OwnKind(resource)})
	return authorizer.AttributesRecord{
		User: u, Verb: verb, Namespace: namespace, APIGroup: resource.Group, APIVersion: version,
		Resource: resource.Resource, Subresource: subresource, Name: name, ResourceRequest: true,
	}, ""
}

// userOf is a subject as reviews judge it. What is not known stays open: the other groups, the extra, and the name of a
// member of a group (TR-21).
func userOf(s ruleset.Subject) user.Info {
	u := &expr.Unidentified{Nameless: s.Group}
	for _, is := range whocan.Judged(s) {
		if is.Group {
			u.Groups = append(u.Groups, is.Name)
		} else {
			u.Name = is.Name
		}
	}
	return u
}

// subresource is a subresource as discovery names it.
func subresource(r schema.GroupResource, sub string) schema.GroupResource {
	return schema.GroupResource{Group: r.Group, Resource: r.Resource + "/" + sub}
}
