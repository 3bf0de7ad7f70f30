package policyreview

import (
	"context"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"proviso.dev/proviso/internal/engine/fieldperm"
	"proviso.dev/proviso/internal/engine/protectedattr"
	"proviso.dev/proviso/internal/engine/ruleset"
	"proviso.dev/proviso/internal/engine/verbs"
	"proviso.dev/proviso/internal/request/authorize"
	"proviso.dev/proviso/internal/request/requestctx"
	"proviso.dev/proviso/internal/state/snapshot"
)

// maxBlinded is how many decisions are made to find who would see less. Each takes some microseconds.
const maxBlinded = 20_000

// Blinded returns the users and groups that may get objects of a resource in some namespace but do not hold a verb on
// them there: those from whom the lack of the verb hides a field. Users come before groups, sorted; all is true if the
// list is complete.
func Blinded(ctx context.Context, gate *authorize.Gate, snap *snapshot.Snapshot, r fieldperm.Resource, verb string) (subjects []ruleset.Subject, all bool) {
	gets := authorizer.AttributesRecord{Verb: verbs.Get, APIGroup: r.Group, APIVersion: "*", Resource: r.Resource, ResourceRequest: true}
	return Without(ctx, gate, snap, gets, r, verb)
}

// Without returns the users and groups that may make a request in some namespace but do not hold a verb on a resource
// there.
func Without(ctx context.Context, gate *authorize.Gate, snap *snapshot.Snapshot, attrs authorizer.AttributesRecord, r fieldperm.Resource, verb string) (subjects []ruleset.Subject, all bool) {
	asked := map[ruleset.Subject]bool{}
	snap.Rules.Anyone(attrs, func(s ruleset.Subject) { asked[s] = true })
	b := blinded{gate: gate, snap: snap, attrs: attrs, of: r, verb: verb, left: maxBlinded,
		namespaced: snap.Served.Namespaced(schema.GroupResource{Group: attrs.APIGroup, Resource: attrs.Resource})}
	ctx = requestctx.With(ctx, snap)
	for s := range asked {
		if b.left <= 0 {
			break
		}
		if !isExempt(s) && b.is(ctx, s) {
			subjects = append(subjects, s)
		}
	}
	slices.SortFunc(subjects, ruleset.Subject.Compare)
	return subjects, b.left > 0
}

// blinded asks about one field.
type blinded struct {
	gate       *authorize.Gate
	snap       *snapshot.Snapshot
	attrs      authorizer.AttributesRecord
	of         fieldperm.Resource
	verb       string
	namespaced bool
	left       int
}

// is reports whether there is a namespace in which a subject may make the request and does not hold the verb.
func (b *blinded) is(ctx context.Context, s ruleset.Subject) bool {
	places := []string{""}
	attrs := b.attrs
	attrs.User = userOf(s)
	if b.namespaced {
		var q ruleset.Query
		q.Reset(b.snap.Rules, attrs)
		places = append(places, q.Places()...)
	}
	for _, place := range places {
		if b.left -= 2; b.left <= 0 {
			return false
		}
		makes := attrs
		makes.Namespace = place
		reveals := authorizer.AttributesRecord{User: attrs.User, Verb: b.verb, Namespace: place, APIGroup: b.of.Group, APIVersion: "*", Resource: b.of.Resource, ResourceRequest: true}
		if b.gate.Decide(ctx, makes).AtAuthorization() == authorizer.DecisionAllow && b.gate.Decide(ctx, reveals).Answer != authorize.Allowed {
			return true
		}
	}
	return false
}

// isExempt reports whether nothing is hidden from a subject (HF-7).
func isExempt(s ruleset.Subject) bool {
	if s.Group {
		return s.Name == user.SystemPrivilegedGroup || s.Name == user.NodesGroup
	}
	return protectedattr.IsController(s.Name)
}
