package policytools

import (
	"context"
	"slices"
	"strings"

	"k8s.io/apiserver/pkg/authorization/authorizer"

	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/internal/analysis/lint"
	"proviso.dev/proviso/internal/engine/fieldperm"
	"proviso.dev/proviso/internal/hosts/offline"
)

// inPods are the resources whose content pods have.
var inPods = []string{"secrets", "configmaps", "pods"}

// aways are the ways to what pods have that do not show the object (HF-7).
var aways = []struct{ how, verb, group, resources string }{
	{"can run pods that use it", "create", "", "pods replicationcontrollers"},
	{"can run pods that use it", "create", "apps", "deployments replicasets statefulsets daemonsets"},
	{"can run pods that use it", "create", "batch", "jobs cronjobs"},
	{"can run commands in pods that use it", "create", "", "pods/exec pods/attach"},
	{"can run commands in pods that use it", "patch", "", "pods/ephemeralcontainers"},
	{"can read what pods print that use it", "get", "", "pods/log"},
	{"can ask kubelets about pods that use it", "get", "", "nodes/proxy"},
}

// reachables are the hidden fields that users get at who do not see them.
func reachables(ctx context.Context, host *offline.Host, permissions []*policyv1alpha1.FieldPermission) (all []lint.Reachable) {
	for _, p := range permissions {
		if !p.Spec.ReadExclusive {
			continue
		}
		found := lint.Reachable{Object: lint.Object{Group: policyv1alpha1.GroupName, Kind: "FieldPermission", Name: p.Name}, Field: p.Spec.Field}
		for _, name := range p.Spec.Resources {
			r, err := fieldperm.ParseResource(name)
			hides := func(h fieldperm.Hidden) bool { return h.Permission == p.Spec.Permission }
			if err != nil || r.Group != "" || !slices.Contains(inPods, r.Resource) || !slices.ContainsFunc(host.Snapshot().Fields.Hidden(r), hides) {
				continue
			}
			found.Ways = append(found.Ways, waysTo(ctx, host, r, fieldperm.RevealPrefix+p.Spec.Permission)...)
		}
		if len(found.Ways) > 0 {
			all = append(all, found)
		}
	}
	return all
}

// hiding are the permissions that hide a field.
func hiding(permissions []*policyv1alpha1.FieldPermission) (all []lint.Object) {
	for _, p := range permissions {
		if p.Spec.ReadExclusive {
			all = append(all, lint.Object{Group: policyv1alpha1.GroupName, Kind: "FieldPermission", Name: p.Name})
		}
	}
	return all
}

// waysTo are who can do what, each way once.
func waysTo(ctx context.Context, host *offline.Host, r fieldperm.Resource, verb string) (ways []lint.Way) {
	for _, a := range aways {
		for resource := range strings.FieldsSeq(a.resources) {
			attrs := authorizer.AttributesRecord{Verb: a.verb, APIGroup: a.group, APIVersion: "*", ResourceRequest: true}
			attrs.Resource, attrs.Subresource, _ = strings.Cut(resource, "/")
			subjects, _ := host.Without(ctx, attrs, r, verb)
			for _, s := range subjects {
				at := slices.IndexFunc(ways, func(w lint.Way) bool { return w.How == a.how })
				if at < 0 {
					ways, at = append(ways, lint.Way{How: a.how}), len(ways)
				}
				if who := offline.SubjectOf(s).String(); !slices.Contains(ways[at].Who, who) {
					ways[at].Who = append(ways[at].Who, who)
				}
			}
		}
	}
	return ways
}
