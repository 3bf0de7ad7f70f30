package ruleset

// An eviction deletes a pod, and asks for create of pods/eviction only. A deny of delete reaches it (PO-20): deny rules
// are looked up a second time, for the delete. Allow rules are not: to be allowed to delete pods is not to be allowed
// to evict them.

// subEviction is the subresource of pods that evicts them.
const subEviction = "eviction"

// bits are the verbs under which the inverse index lists what could match.
func (q *request) bits() verbBit {
	switch {
	case q.evicts:
		return q.bit | bitDelete
	case q.bit == 0:
		return bitOther
	}
	return q.bit
}

// denies is match for a table of deny rules.
func (t *table) denies(q *request) (r *rule, conditional bool) {
	r, conditional = t.match(q)
	if q.evicts && (r == nil || r.soft) { // a deny that yields hides none that does not
		q.asDelete(func() {
			d, too := t.match(q)
			if r == nil || d != nil && !d.soft {
				r = d
			}
			conditional = conditional || too
		})
	}
	return r, conditional
}

// each visits every rule of a table that applies; byDelete are those that deny the delete.
func (t *table) each(q *request, visit func(ru *rule, v fit, byDelete bool)) {
	t.direct(q, func(ru *rule, v fit) { visit(ru, v, false) })
	if q.evicts {
		q.asDelete(func() {
			t.direct(q, func(ru *rule, v fit) {
				if ru.deny {
					visit(ru, v, true)
				}
			})
		})
	}
}

// asDelete makes the query one for the delete of the pod while look runs.
func (q *request) asDelete(look func()) {
	verb, bit, sub, raw := q.verb, q.bit, q.sub, q.rawSub
	q.verb, q.bit, q.sub, q.rawSub, q.hasSub = "delete", bitDelete, "", "", false
	look()
	q.verb, q.bit, q.sub, q.rawSub, q.hasSub = verb, bit, sub, raw, true
}
