package discovery

import (
	"fmt"
	"slices"
	"strings"

	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	apiregistration "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"proviso.dev/proviso/internal/engine/verbs"
	"proviso.dev/proviso/internal/state/snapshot"
)

// knownAPIs compares the snapshot that decided a request with what would serve it at this moment. They can differ: a
// definition may be newer than the snapshot. Then rules by kind were not applied to it.
type knownAPIs struct {
	local                 map[schema.GroupVersion]bool
	groups                map[string]bool
	verbs                 map[listed]metav1.Verbs
	services, definitions snapshot.Objects // may be nil
	// knows reports whether a snapshot knows the shapes of a definition as it is now.
	knows func(snap *snapshot.Snapshot, definition *apiextensions.CustomResourceDefinition) bool
}

// listed is a resource or a subresource as discovery names it: pods, pods/exec.
type listed struct {
	schema.GroupVersion
	name string
}

func newKnownAPIs(world World, knows func(*snapshot.Snapshot, *apiextensions.CustomResourceDefinition) bool) *knownAPIs {
	k := &knownAPIs{knows: knows, local: map[schema.GroupVersion]bool{}, groups: map[string]bool{}, verbs: map[listed]metav1.Verbs{}, services: world.Services, definitions: world.Definitions}
	for _, list := range world.Local {
		if gv, err := schema.ParseGroupVersion(list.GroupVersion); err == nil {
			k.local[gv], k.groups[gv.Group] = true, true
			for i := range list.APIResources {
				r := &list.APIResources[i]
				k.verbs[listed{gv, r.Name}] = r.Verbs
			}
		}
	}
	return k
}

// Acquaintance says whether a request's snapshot knows what would serve it. The zero value means that nothing does.
type Acquaintance int

const (
	Nowhere Acquaintance = iota
	New
	Passes
)

// Check compares the snapshot that decided a request with what would serve it.
func (d *Directory) Check(snap *snapshot.Snapshot, gv schema.GroupVersion, resource string) Acquaintance {
	w := d.world.Load()
	if w == nil {
		return New
	}
	return w.known.check(snap, gv, resource)
}

func (k *knownAPIs) check(snap *snapshot.Snapshot, gv schema.GroupVersion, resource string) Acquaintance {
	if k.local[gv] {
		return Passes
	}
	if k.proxied(gv) {
		if k.groups[gv.Group] || snap.Heard[gv] {
			return Passes
		}
		return New
	}
	if k.definitions == nil || k.groups[gv.Group] {
		return Nowhere
	}
	obj, exists, err := k.definitions.GetIndexer().GetByKey(resource + "." + gv.Group)
	definition, ok := obj.(*apiextensions.CustomResourceDefinition)
	switch {
	case err != nil || !exists || !ok:
		return Nowhere
	case strings.EqualFold(snap.Served.OwnKind(schema.GroupResource{Group: gv.Group, Resource: resource}), snapshot.CustomKind(definition)) && k.knows(snap, definition):
		return Passes
	}
	return New
}

// Known returns an error if the filter OnlyKnown would refuse requests to the target of a review at this moment.
func (d *Directory) Known(snap *snapshot.Snapshot, attrs authorizer.Attributes) error {
	if !attrs.IsResourceRequest() || !snap.Synced {
		return nil
	}
	if w := d.world.Load(); w != nil && !w.known.isNew(snap, attrs.GetAPIGroup(), attrs.GetAPIVersion(), attrs.GetResource()) {
		return nil
	}
	return fmt.Errorf("what serves %s in %q has just changed and is not known to the policy yet: ask again", attrs.GetResource(), attrs.GetAPIGroup())
}

// Unknown returns an error if a request in one version is for a resource whose kind the snapshot does not know, whether
// it is new or does not exist. It is for a host that does not serve what it decides about, and so cannot answer "not
// found".
func (d *Directory) Unknown(snap *snapshot.Snapshot, attrs authorizer.Attributes) error {
	version := attrs.GetAPIVersion()
	if !attrs.IsResourceRequest() || version == "" || version == "*" {
		return d.Known(snap, attrs)
	}
	if d.Check(snap, schema.GroupVersion{Group: attrs.GetAPIGroup(), Version: version}, attrs.GetResource()) == Passes {
		return nil
	}
	return fmt.Errorf("nothing that serves %s in %s/%s is known to the policy: try again if it has just been added", attrs.GetResource(), attrs.GetAPIGroup(), version)
}

// Lists reports whether discovery lists a verb for the resource or subresource of a request, in its version and in this
// process. An API server asks its authorizers about more than that, for its own purposes.
func (d *Directory) Lists(attrs authorizer.Attributes) bool {
	w := d.world.Load()
	if w == nil || !attrs.IsResourceRequest() {
		return false
	}
	gv := schema.GroupVersion{Group: attrs.GetAPIGroup(), Version: attrs.GetAPIVersion()}
	if w.known.local[gv] {
		return slices.Contains(w.known.verbs[listed{gv, nameOf(attrs)}], attrs.GetVerb())
	}
	version := w.known.customVersion(gv, attrs.GetResource())
	switch sub := attrs.GetSubresource(); {
	case version == nil:
		return false
	case sub == "":
		return verbs.IsRequest(attrs.GetVerb())
	default:
		return slices.Contains(subresourceVerbsOf(version, sub), attrs.GetVerb())
	}
}

// Offers reports whether this process serves the resource or subresource that a request is about, in its version,
// whatever the verb is. Before it knows what it serves, it offers nothing.
func (d *Directory) Offers(attrs authorizer.Attributes) bool {
	w := d.world.Load()
	if w == nil || !attrs.IsResourceRequest() {
		return false
	}
	gv := schema.GroupVersion{Group: attrs.GetAPIGroup(), Version: attrs.GetAPIVersion()}
	if w.known.local[gv] {
		_, offered := w.known.verbs[listed{gv, nameOf(attrs)}]
		return offered
	}
	version := w.known.customVersion(gv, attrs.GetResource())
	return version != nil && (attrs.GetSubresource() == "" || len(subresourceVerbsOf(version, attrs.GetSubresource())) > 0)
}

func nameOf(attrs authorizer.Attributes) string {
	if sub := attrs.GetSubresource(); sub != "" {
		return attrs.GetResource() + "/" + sub
	}
	return attrs.GetResource()
}

// subresourceVerbs are those of the subresources that a definition defines.
var subresourceVerbs = []string{verbs.Get, verbs.Patch, verbs.Update}

// customVersion returns the version of a definition that serves a custom resource; nil if none does.
func (k *knownAPIs) customVersion(gv schema.GroupVersion, resource string) *apiextensions.CustomResourceDefinitionVersion {
	if k.definitions == nil || k.groups[gv.Group] || k.proxied(gv) {
		return nil
	}
	obj, exists, err := k.definitions.GetIndexer().GetByKey(resource + "." + gv.Group)
	definition, ok := obj.(*apiextensions.CustomResourceDefinition)
	if err != nil || !exists || !ok {
		return nil
	}
	i := slices.IndexFunc(definition.Spec.Versions, func(v apiextensions.CustomResourceDefinitionVersion) bool { return v.Name == gv.Version && v.Served })
	if i < 0 {
		return nil
	}
	return &definition.Spec.Versions[i]
}

func subresourceVerbsOf(version *apiextensions.CustomResourceDefinitionVersion, subresource string) []string {
	has := version.Subresources
	if has != nil && (subresource == "status" && has.Status != nil || subresource == "scale" && has.Scale != nil) {
		return subresourceVerbs
	}
	return nil
}

// isNew reports whether the snapshot does not know yet what serves a resource, in one version or, if none is given, in
// any.
func (k *knownAPIs) isNew(snap *snapshot.Snapshot, group, version, resource string) bool {
	if version != "" && version != "*" {
		return k.check(snap, schema.GroupVersion{Group: group, Version: version}, resource) == New
	}
	for _, service := range snapshot.Of[*apiregistration.APIService](k.services) {
		if service.Spec.Group == group && k.check(snap, schema.GroupVersion{Group: group, Version: service.Spec.Version}, resource) == New {
			return true
		}
	}
	return false
}

// proxied reports whether another server serves a group version.
func (k *knownAPIs) proxied(gv schema.GroupVersion) bool {
	if k.services == nil {
		return false
	}
	obj, exists, err := k.services.GetIndexer().GetByKey(gv.Version + "." + gv.Group)
	service, ok := obj.(*apiregistration.APIService)
	return err == nil && exists && ok && service.Spec.Service != nil
}
