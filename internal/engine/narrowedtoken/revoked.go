package narrowedtoken

import (
	accessv1alpha1 "proviso.dev/proviso/api/access/v1alpha1"
	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
)

// Revocations are the tokens that have ended before their time. It never changes. A nil one is not known, and
// everything is revoked.
type Revocations struct {
	ids, users map[string]int64
	objects    []*accessv1alpha1.TokenRevocation
	// all tells that one of them cannot be read: it may be about any token.
	all bool
}

// NewRevocations puts revocations together. Of two about the same, the later one counts. One that does not say until
// when is about every token.
func NewRevocations(all []*accessv1alpha1.TokenRevocation) *Revocations {
	r := &Revocations{ids: map[string]int64{}, users: map[string]int64{}, objects: all}
	for _, one := range all {
		if one.Annotations[policyv1alpha1.AnnotationQuarantined] != "" {
			r.all = true
		}
		before := int64(1<<63 - 1)
		if one.Spec.IssuedBefore != nil {
			before = one.Spec.IssuedBefore.Unix()
		}
		for _, id := range one.Spec.TokenIDs {
			r.ids[id] = max(r.ids[id], before)
		}
		for _, name := range one.Spec.UserNames {
			r.users[name] = max(r.users[name], before)
		}
	}
	return r
}

// Len is how many ids and users there are.
func (r *Revocations) Len() int {
	if r == nil {
		return 0
	}
	return len(r.ids) + len(r.users)
}

// Objects are what it was put together from. They must not be changed.
func (r *Revocations) Objects() []*accessv1alpha1.TokenRevocation {
	if r == nil {
		return nil
	}
	return r.objects
}

// Has reports whether a token is revoked, or one that it was asked for with. Times have seconds: a token of the same
// second is revoked.
func (r *Revocations) Has(p *Payload) bool {
	if r == nil || r.all {
		return true
	}
	if len(r.ids) == 0 && len(r.users) == 0 {
		return false
	}
	for _, one := range append([]Ancestor{{p.ID, p.Issued}}, p.Ancestors...) {
		if before, ok := r.ids[one.ID]; ok && one.Issued <= before {
			return true
		}
		if before, ok := r.users[p.User.Name]; ok && one.Issued <= before {
			return true
		}
	}
	return false
}
