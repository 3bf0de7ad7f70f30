package fieldperm

import "slices"

// Labels and annotations are orders, too: a controller that finds one overwrites other fields of the object in its own
// name (NI-4). To change such a key is to change these fields: a right to single fields has to cover them, and what is
// exclusive in them is guarded at the key.

// overwrites are the keys, and the fields that are overwritten because of them. The marks that make a controller delete
// the object are those of the enforcer.
var overwrites = map[Resource][]copied{
	// The template of an older replica set, and the annotations that it has.
	{"apps", "deployments"}: overwrite(annotation("deprecated.deployment.rollback.to"), ".spec.template", ".metadata.annotations"),
	// What is configured by default.
	{"flowcontrol.apiserver.k8s.io", "flowschemas"}:                 overwrite(annotation("apf.kubernetes.io/autoupdate-spec"), ".spec"),
	{"flowcontrol.apiserver.k8s.io", "prioritylevelconfigurations"}: overwrite(annotation("apf.kubernetes.io/autoupdate-spec"), ".spec"),
	{"rbac.authorization.k8s.io", "clusterroles"}:                   overwrite(reconciled, ".rules", ".aggregationRule"),
	{"rbac.authorization.k8s.io", "roles"}:                          overwrite(reconciled, ".rules"),
	{"rbac.authorization.k8s.io", "clusterrolebindings"}:            overwrite(reconciled, ".subjects"),
	{"rbac.authorization.k8s.io", "rolebindings"}:                   overwrite(reconciled, ".subjects"),
	{"apiregistration.k8s.io", "apiservices"}:                       overwrite(Path{Field("metadata"), Field("labels"), Key("kube-aggregator.kubernetes.io/automanaged")}, ".spec"),
	// The token of the account that the secret is for.
	{"", "secrets"}: slices.Concat(overwrite(annotation("kubernetes.io/service-account.name"), ".data"), overwrite(annotation("kubernetes.io/service-account.uid"), ".data")),
}

var reconciled = annotation("rbac.authorization.kubernetes.io/autoupdate")

func overwrite(key Path, fields ...string) (all []copied) {
	for _, field := range fields {
		all = append(all, copied{to: path(field), from: key, whole: true})
	}
	return all
}

// Overwritten lists the fields that a controller overwrites because of a change of others.
func Overwritten(of Resource, changed []Path) (fields []Path) {
	for _, o := range overwrites[of] {
		if o.from.OverlapsAny(changed) {
			fields = append(fields, o.to)
		}
	}
	return fields
}

// overwriting guards the places that a permission has in an object, if it is exclusive, at the keys that have them
// overwritten.
func overwriting(r Resource, all []placed) (guards []placed) {
	for _, o := range overwrites[r] {
		at := func(q placed) bool { return q.path.compare(o.from) == 0 }
		for _, q := range all {
			if !q.path.Overlaps(o.from) && !slices.ContainsFunc(guards, at) {
				guards = append(guards, o.guard(q)...)
			}
		}
	}
	return guards
}

// order adds to the tree of an object what else has to be covered where a key is changed.
func (n *node) order(r Resource, all []placed) {
	for _, o := range overwrites[r] {
		at := n
		for _, e := range o.from {
			at = at.ensure(e)
		}
		covering := need{}
		slices.SortStableFunc(all, func(a, b placed) int { return moreGeneral(a.perm, b.perm) })
		for _, q := range all {
			if q.path.leadsTo(o.to) && q.perm.Parameter == nil && !q.perm.broken {
				covering.alternatives = append(covering.alternatives, alternative{verbs: []string{verb(q.perm.Permission, "", false)}})
			}
		}
		at.orders = append(at.orders, covering)
	}
}

// ordersAt gathers what else has to be covered where something changes at frame i. The general verb covers it.
func (w *walker) ordersAt(i int) (all []need) {
	if w.general {
		return nil
	}
	f := &w.frames[i]
	for _, n := range w.states[f.from:f.to] {
		all = append(all, n.orders...)
	}
	return all
}
