package narrowedtoken

import (
	accessv1alpha1 "proviso.dev/proviso/api/access/v1alpha1"
	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
)

// Revocations are the tokens that were revoked. They are immutable. Nil means that they are not known: then every token
// is revoked.
type Revocations struct {
	ids, users map[string]int64
	objects    []*accessv1alpha1.TokenRevocation
	// all is true if one of them cannot be read: it may be about any token.
	all bool
}

// NewRevocations combines revocations. Of two about the same subject, the later one counts. One without a time is about
// every token.
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

// Len returns the number of ids and users.
func (r *Revocations) Len() int {
	if r == nil {
		return 0
	}
	return len(r.ids) + len(r.users)
}

// Objects returns the revocations it was built from. They must not be changed.
func (r *Revocations) Objects() []*accessv1alpha1.TokenRevocation {
	if r == nil {
		return nil
	}
	return r.objects
}

// Has reports whether a token or one of its ancestors is revoked. Times have a precision of seconds: a token of the
// same second is revoked.
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
