package fieldperm

import (
	"context"
	"slices"
	"strconv"
	"strings"
)

// Other places that set a field (FP-16): in the object itself, and in what carries it.

// spellings are other places of a field in the object that has it: readers of the field prefer them or accept them
// instead, or the server takes its default from them.
var spellings = map[Resource][]copied{
	{"", "persistentvolumes"}: {
		{to: path(".spec.storageClassName"), from: annotation("volume.beta.kubernetes.io/storage-class")},
		{to: path(".spec.mountOptions"), from: annotation("volume.beta.kubernetes.io/mount-options"), whole: true},
	},
	claims:                             {{to: path(".spec.storageClassName"), from: annotation("volume.beta.kubernetes.io/storage-class")}},
	{"networking.k8s.io", "ingresses"}: {{to: path(".spec.ingressClassName"), from: annotation("kubernetes.io/ingress.class")}},
	{"", "services"}: {
		{to: path(".spec.loadBalancerSourceRanges"), from: annotation("service.beta.kubernetes.io/load-balancer-source-ranges"), whole: true},
	},
	{"storage.k8s.io", "storageclasses"}: {
		{to: annotation("storageclass.kubernetes.io/is-default-class"), from: annotation("storageclass.beta.kubernetes.io/is-default-class"), whole: true},
	},
	// One that has no labels gets those of its pods.
	jobs:                           {{to: labelsPath, from: podLabelsPath}},
	{"", "replicationcontrollers"}: {{to: labelsPath, from: podLabelsPath}},
}

// derived are the fields that the server sets from others when it creates an object, before validating admission. If
// the caller creates the object, the field itself is checked. In a template it is not set yet. A test compares the
// table with what the server does.
//
// Two things are left out, because guarding them would withhold most templates: the requests and limits of a pod that
// are sums of those of its containers, and the labels that matchLabelKeys names. Both need another field that is
// guarded.
var derived = map[Resource][]copied{
	pods: slices.Concat([]copied{
		profile(".spec.containers[]"), profile(".spec.initContainers[]"),
		{to: path(".spec.priority"), from: path(".spec.priorityClassName"), whole: true},
		{to: path(".spec.preemptionPolicy"), from: path(".spec.priorityClassName"), whole: true},
		{to: path(".spec.overhead"), from: path(".spec.runtimeClassName"), whole: true},
		{to: path(".spec.nodeSelector"), from: path(".spec.runtimeClassName"), whole: true},
		{to: path(".spec.tolerations"), from: path(".spec.runtimeClassName"), whole: true},
		{to: path(".spec.resources.requests"), from: path(".spec.resources.limits"), whole: true},
		{to: path(".spec.resources.limits"), from: path(".spec.resources.requests"), whole: true},
		selector(".spec.topologySpreadConstraints[]", "matchLabelKeys"),
	}, affinities()),
	claims: {
		{to: path(".spec.dataSourceRef"), from: path(".spec.dataSource")},
		{to: path(".spec.dataSource"), from: path(".spec.dataSourceRef")},
	},
}

// profile says that the AppArmor profile of a container is taken from an annotation with the container's name.
func profile(container string) copied {
	return copied{
		to: path(container + ".securityContext.appArmorProfile"), from: path(".metadata.annotations[]"), whole: true,
		prefix: "container.apparmor.security.beta.kubernetes.io/",
	}
}

// selector says that a label selector is extended by the labels that a list names.
func selector(of, keys string) copied {
	return copied{to: path(of + ".labelSelector"), from: path(of + "." + keys), whole: true}
}

func affinities() (all []copied) {
	for _, kind := range []string{".spec.affinity.podAffinity.", ".spec.affinity.podAntiAffinity."} {
		for _, terms := range []string{"requiredDuringSchedulingIgnoredDuringExecution[]", "preferredDuringSchedulingIgnoredDuringExecution[].podAffinityTerm"} {
			all = append(all, selector(kind+terms, "matchLabelKeys"), selector(kind+terms, "mismatchLabelKeys"))
		}
	}
	return all
}

func annotation(key string) Path { return Path{Field("metadata"), Field("annotations"), Key(key)} }

// path is for the tables of this package.
func path(text string) Path {
	p, err := ParsePath(text)
	if err != nil {
		panic(err)
	}
	return p
}

// spelled returns the field itself and, if it is exclusive, its other places.
func (p *permission) spelled(r Resource) []placed {
	return append([]placed{{p.Field, p}}, p.guards(spellings[r])...)
}

// guards places an exclusive permission where the value of its field comes from.
func (p *permission) guards(from []copied) (all []placed) {
	for _, c := range from {
		all = append(all, c.guard(placed{p.Field, p})...)
	}
	return all
}

// guard places an exclusive permission where the value of its field comes from. It guards but never grants: the right
// to change one field does not include another one.
func (c copied) guard(q placed) []placed {
	switch {
	case !q.perm.Exclusive:
		return nil
	case c.to.leadsTo(q.path) && !c.whole:
		return []placed{{q.path[len(c.to):].under(c.from), q.perm}}
	case !c.to.leadsTo(q.path) && !q.path.leadsTo(c.to):
		return nil
	case c.prefix != "":
		return []placed{c.entry(q)}
	}
	return []placed{{c.from, q.perm.blunt()}}
}

// entry places a permission at the entry of a map that stands for an element of a list, or at all such entries.
func (c copied) entry(q placed) placed {
	p := q.perm.blunt()
	if at := slices.Index(c.to, Any()); at < len(q.path) && !q.path[at].Any {
		return placed{Path{Key(c.prefix + q.path[at].Name)}.under(c.from[:len(c.from)-1]), p}
	}
	p.Field, p.onlyGuards = c.from, true
	p.ExclusiveWhen, p.when = "key.startsWith("+strconv.Quote(c.prefix)+")", keysWith(c.prefix)
	return placed{c.from, p}
}

// keysWith holds for entries whose key has a prefix.
type keysWith string

// Holds implements When.
func (prefix keysWith) Holds(_ context.Context, change Change) (bool, error) {
	return strings.HasPrefix(change.Key, string(prefix)), nil
}

// blunt returns the permission for a place that is only a part of its field, or stands for another field: its condition
// and its parameter would see another value than they were written for, so it is exclusive for every value and cannot
// be granted for a single one.
func (p *permission) blunt() *permission {
	b := *p
	b.when, b.ExclusiveWhen = nil, ""
	b.broken = b.broken || b.Parameter != nil
	return &b
}
