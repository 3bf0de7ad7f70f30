package protectedattr

import "proviso.dev/proviso/internal/engine/connect"

// site is a place inside an object that holds metadata for objects that a controller will create from it. Names are
// JSON names; the Go field of each is the same name with a capital (metadata is the embedded ObjectMeta), in versioned
// and internal types alike.
type site struct {
	// path leads from the object to the carrier of the metadata, or to the list of carriers.
	path []string
	// key is set for a list: where each element has the name that identifies it in the old and the new list.
	key []string
	// sub leads from a list element to the carrier of the metadata.
	sub []string
	// text is the place as it appears in a refusal, without a list element's name.
	text string
	// makes are the resources that receive the metadata.
	makes []groupResource
}

func (s *site) isList() bool { return s.key != nil }

// groupResource identifies a built-in resource.
type groupResource struct{ group, resource string }

// templateSites lists where built-in resources carry metadata for other objects (PA-5). A test walks every type that
// Kubernetes serves and fails when one of them has a place that is missing here.
var templateSites = map[groupResource][]site{
	{"", "pods"}:                   podSpec("spec"),
	{"", "podtemplates"}:           podTemplate("template"),
	{"", "replicationcontrollers"}: podTemplate("spec", "template"),
	{"apps", "deployments"}:        alsoMaking(podTemplate("spec", "template"), replicaSets),
	{"apps", "replicasets"}:        podTemplate("spec", "template"),
	{"apps", "daemonsets"}:         alsoMaking(podTemplate("spec", "template"), revisions),
	{"apps", "statefulsets"}:       alsoMaking(append(podTemplate("spec", "template"), claimTemplatesAt("spec", "volumeClaimTemplates")), revisions, claims),
	{"batch", "jobs"}:              podTemplate("spec", "template"),
	{"batch", "cronjobs"}: append([]site{metadataAt(jobs, "spec", "jobTemplate")},
		podTemplate("spec", "jobTemplate", "spec", "template")...),
	{"resource.k8s.io", "resourceclaimtemplates"}: {metadataAt(resourceClaims, "spec")},
	revisions: append(podTemplate("data", "spec", "template"), claimTemplatesAt("data", "spec", "volumeClaimTemplates")),
}

// revisions have in their data a part of the set that they were created from, and a stateful set creates its pods from
// it. No Go type has its fields: the check takes such an object as JSON, with the data as its set's type reads it, and
// refuses any other form.
var revisions = groupResource{"apps", "controllerrevisions"}

// otherKind lists the subresources, except those that connect, whose body is not an object of the resource's own kind;
// none of those bodies has templates. Any other subresource, even one that does not exist yet, counts as the resource
// itself.
var otherKind = map[string]bool{
	"binding": true, "eviction": true, "log": true, "scale": true, "token": true,
}

// sitesOf returns the places to check in the body of a request.
func sitesOf(group, resource, subresource string) []site {
	if otherKind[subresource] || connect.Connects(subresource) {
		return nil
	}
	return templateSites[groupResource{group, resource}]
}

func metadataAt(of groupResource, path ...string) site {
	return site{path: path, text: dotted(path) + ".metadata", makes: []groupResource{of}}
}

// alsoMaking adds other resources that get the labels of a pod template, which is the first site: a replica set gets
// those of its pods, and a claim of a stateful set those of the selector.
func alsoMaking(sites []site, more ...groupResource) []site {
	sites[0].makes = append(sites[0].makes, more...)
	return sites
}

// podTemplate returns the sites of a pod template at path: its own metadata, and what its volumes carry.
func podTemplate(path ...string) []site {
	return append([]site{metadataAt(pods, path...)}, podSpec(join(path, "spec")...)...)
}

// podSpec returns the sites of a pod specification at path: the claim templates of its ephemeral volumes.
func podSpec(path ...string) []site {
	path = join(path, "volumes")
	return []site{{path: path, key: []string{"name"}, sub: []string{"ephemeral", "volumeClaimTemplate"}, text: dotted(path), makes: []groupResource{claims}}}
}

// claimTemplatesAt returns the site of the claims that a stateful set creates for each of its pods.
func claimTemplatesAt(path ...string) site {
	return site{path: path, key: []string{"metadata", "name"}, sub: []string{}, text: dotted(path), makes: []groupResource{claims}}
}

func join(path []string, name string) []string {
	return append(append([]string(nil), path...), name)
}

func dotted(path []string) string {
	text := ""
	for _, name := range path {
		text += "." + name
	}
	return text
}
