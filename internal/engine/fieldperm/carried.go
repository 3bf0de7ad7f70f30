package fieldperm

import "slices"

// What an object carries for other objects, such as templates (FP-15, FP-16). A controller that creates objects from it
// is not checked again, so exclusive fields of the created object are guarded here, on what the caller writes. Paths of
// the created object become paths of its carrier; carriers nest: a cron job carries jobs, which carry pods, which carry
// claims.

// carrier says where an object carries fields of another resource.
type carrier struct {
	// inner is the resource that is created from it.
	inner Resource
	// at holds the metadata and the specification of inner; nil if only single fields are copied.
	at Path
	// copied are single fields that a controller copies.
	copied []copied
	// inside is set if inner itself is not created, only what it carries in turn.
	inside bool
	// version restricts it to one version of a custom resource; empty means all.
	version string
}

// copied is a field of the created object and where its value comes from.
type copied struct {
	to, from Path
	// whole is set if the value has different forms in the two places, so nothing inside it can be located.
	whole bool
	// prefix is set if from stands for all entries of a map, and only those whose key has this prefix count. The rest
	// of the key is the name of the element of a list that to goes through.
	prefix string
}

var (
	replicaSets    = Resource{"apps", "replicasets"}
	statefulSets   = Resource{"apps", "statefulsets"}
	revisions      = Resource{"apps", "controllerrevisions"}
	jobs           = Resource{"batch", "jobs"}
	claims         = Resource{"", "persistentvolumeclaims"}
	resourceClaims = Resource{"resource.k8s.io", "resourceclaims"}
	endpoints      = Resource{"", "endpoints"}
	endpointSlices = Resource{"discovery.k8s.io", "endpointslices"}

	labelsPath      = path(".metadata.labels")
	annotationsPath = path(".metadata.annotations")
	podLabelsPath   = path(".spec.template.metadata.labels")
	podTemplate     = carrier{inner: pods, at: path(".spec.template")}
	// A revision has the labels of the pods, the annotations of the set, and the template.
	revision = carrier{inner: revisions, copied: []copied{
		{to: labelsPath, from: podLabelsPath}, {to: annotationsPath, from: annotationsPath},
		{to: path(".data"), from: path(".spec.template"), whole: true},
	}}
	metadataCopied = []copied{{to: labelsPath, from: labelsPath}, {to: annotationsPath, from: annotationsPath}}
)

// carriers are the built-in resources that carry others. A test walks every type that Kubernetes serves and fails when
// a template is missing; fields that controllers copy one by one were taken from their sources.
var carriers = Carriers{
	{"", "podtemplates"}:           {{inner: pods, at: path(".template")}},
	{"", "replicationcontrollers"}: {podTemplate},
	{"apps", "deployments"}: {podTemplate, {inner: replicaSets, copied: []copied{
		{to: labelsPath, from: podLabelsPath}, {to: annotationsPath, from: annotationsPath}, {to: replicasPath, from: replicasPath},
		{to: path(".spec.minReadySeconds"), from: path(".spec.minReadySeconds")}, {to: path(".spec.selector"), from: path(".spec.selector")},
		{to: path(".spec.template"), from: path(".spec.template")},
	}}},
	replicaSets: {podTemplate},
	statefulSets: {podTemplate, revision,
		{inner: pods, copied: []copied{{to: path(".spec.subdomain"), from: path(".spec.serviceName")}}},
		{inner: claims, at: path(".spec.volumeClaimTemplates[]"), copied: []copied{{to: labelsPath, from: path(".spec.selector.matchLabels")}}},
	},
	{"apps", "daemonsets"}: {podTemplate, revision},
	// The data of a revision is a part of the set that it was made from, in its canonical form, but without defaults.
	revisions: {{inner: statefulSets, at: path(".data"), inside: true}, {inner: pods, copied: []copied{
		{to: path(".spec.serviceAccountName"), from: path(".data.spec.template.spec.serviceAccount")},
	}}},
	jobs:                  {podTemplate},
	{"batch", "cronjobs"}: {{inner: jobs, at: path(".spec.jobTemplate")}},
	pods:                  {{inner: claims, at: path(".spec.volumes[].ephemeral.volumeClaimTemplate")}},
	{"resource.k8s.io", "resourceclaimtemplates"}: {{inner: resourceClaims, at: specPath}},
	{"", "services"}: {{inner: endpoints, copied: metadataCopied}, {inner: endpointSlices, copied: metadataCopied}},
	endpoints:        {{inner: endpointSlices, copied: metadataCopied}},
	// Admission copies these to a pod that uses the account or the class.
	{"", "serviceaccounts"}: {{inner: pods, copied: []copied{{to: path(".spec.imagePullSecrets"), from: path(".imagePullSecrets")}}}},
	{"node.k8s.io", "runtimeclasses"}: {{inner: pods, copied: []copied{
		{to: path(".spec.overhead"), from: path(".overhead.podFixed")}, {to: path(".spec.nodeSelector"), from: path(".scheduling.nodeSelector")},
		{to: path(".spec.tolerations"), from: path(".scheduling.tolerations")},
	}}},
	{"scheduling.k8s.io", "priorityclasses"}: {{inner: pods, copied: []copied{
		{to: path(".spec.priority"), from: path(".value")}, {to: path(".spec.preemptionPolicy"), from: path(".preemptionPolicy")},
	}}},
}

// written lists where an object of a resource has the field of a permission: in itself, and in what it carries.
func (t *Table) written(p *permission, r Resource, version string) []placed {
	var all []placed
	if p.appliesTo(r) {
		all = p.spelled(r)
	}
	all = append(all, t.carried(p, r, version)...)
	return append(all, overwriting(r, all)...)
}

// carried lists the places in the objects that an object of a resource carries.
func (t *Table) carried(p *permission, r Resource, version string) []placed {
	var all []placed
	for _, c := range t.carriersFor(p, r, version) {
		if c.inside && !p.Exclusive {
			continue // it guards, and gives nothing
		}
		var inner []placed
		if c.at != nil {
			inner = t.carried(p, c.inner, "")
		}
		if !c.inside && p.guardsCarried(c.inner) {
			inner = slices.Concat(inner, p.spelled(c.inner), p.guards(derived[c.inner]))
		}
		for _, q := range inner {
			all = append(all, c.outer(q)...)
		}
	}
	return all
}

// guardsCarried reports whether a permission reaches into what other objects carry of a resource (FP-15). One that
// names the resource does. One for all resources does if it is exclusive; otherwise a carrier could be used to evade
// it. If it is not exclusive, it does not: a caller who may change an object's labels may not thereby change those of
// the pods created from it.
func (p *permission) guardsCarried(r Resource) bool {
	return slices.Contains(p.Resources, r) || p.Exclusive && slices.ContainsFunc(p.Resources, Resource.All)
}

// outer returns where a place of the created object is in its carrier.
func (c *carrier) outer(q placed) []placed {
	var all []placed
	if c.at != nil && (q.path.hasPrefix(specPath) || q.path.hasPrefix(metadataPath)) {
		all = append(all, placed{q.path.under(c.at), q.perm})
	}
	for _, s := range c.copied {
		all = append(all, s.guard(q)...)
	}
	return all
}

// made returns the paths of a resource whose fields are checked in the carrier, and not again when a controller creates
// the object. Metadata is among them, since the controller itself chooses what does not come from the template. Nil if
// nothing carries the resource.
func made(r Resource) []Path {
	var all []Path
	for _, list := range carriers {
		for _, c := range list {
			if c.inner != r || c.inside {
				continue
			}
			all = append(all, metadataPath)
			if c.at != nil {
				all = append(all, specPath)
			}
			for _, s := range c.copied {
				all = append(all, s.to)
			}
		}
	}
	return all
}

// madeResources returns the resources that another one carries.
func madeResources() map[Resource]bool {
	all := map[Resource]bool{}
	for _, list := range carriers {
		for _, c := range list {
			if !c.inside {
				all[c.inner] = true
			}
		}
	}
	return all
}

// leadsTo reports whether q is at p or below it, however fields and entries are written.
func (p Path) leadsTo(q Path) bool {
	if len(p) > len(q) {
		return false
	}
	for i := range p {
		if p[i].Name != q[i].Name && !p[i].Any && !q[i].Any {
			return false
		}
	}
	return true
}
