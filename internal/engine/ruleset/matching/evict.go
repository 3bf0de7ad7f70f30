package matching

// An eviction deletes a pod, but asks only for create of pods/eviction. A deny of delete applies to it (PO-20): deny
// rules are looked up a second time, for the delete. Allow rules are not: the right to delete pods does not include the
// right to evict them.

// SubEviction is the subresource of pods that evicts them.
const SubEviction = "eviction"

// Bits returns the verbs under which the inverse index lists rules that could match.
func (q *Request) Bits() VerbBit {
	switch {
	case q.evicts:
		return q.Bit | BitDelete
	case q.Bit == 0:
		return bitOther
	}
	return q.Bit
}

// Denies is match for a table of deny rules.
func (t *Table) Denies(q *Request) (r *Rule, conditional bool) {
	r, conditional = t.Match(q)
	if q.evicts && (r == nil || r.Soft) { // a deny that yields must not hide one that does not
		q.asDelete(func() {
			d, too := t.Match(q)
			if r == nil || d != nil && !d.Soft {
				r = d
			}
			conditional = conditional || too
		})
	}
	return r, conditional
}

// Each visits every rule of a table that applies; byDelete are those that deny the delete.
func (t *Table) Each(q *Request, visit func(ru *Rule, v Fit, byDelete bool)) {
	t.direct(q, func(ru *Rule, v Fit) { visit(ru, v, false) })
	if q.evicts {
		q.asDelete(func() {
			t.direct(q, func(ru *Rule, v Fit) {
				if ru.Deny {
					visit(ru, v, true)
				}
			})
		})
	}
}

// asDelete turns the query into one for the delete of the pod while look runs.
func (q *Request) asDelete(look func()) {
	verb, bit, sub, raw := q.Verb, q.Bit, q.Sub, q.RawSub
	q.Verb, q.Bit, q.Sub, q.RawSub, q.HasSub = "delete", BitDelete, "", "", false
	look()
	q.Verb, q.Bit, q.Sub, q.RawSub, q.HasSub = verb, bit, sub, raw, true
}
