package ruleset

// With is the match as if one more rule applied.
func (m Match) With(h Hit) Match {
	conditional := h.Condition() != nil || h.Names() != nil
	switch {
	case !h.Found():
	case h.rule.Deny && conditional:
		m.ConditionalDeny = true
	case h.rule.Deny:
		if !m.Deny.Found() || m.Deny.Yields() {
			m.Deny = h
		}
	case conditional:
		m.ConditionalAllow = true
	case !m.Allow.Found():
		m.Allow = h
	}
	return m
}

// Applying are the rules of the index that apply to the request, by tier, each once and not once per binding.
func (q *Query) Applying(tier Tier) []Hit {
	var all []Hit
	for _, effect := range []Effect{Denies, Allows} {
		for _, h := range q.AppendAll(nil, tier, effect) {
			known := false
			for _, other := range all {
				known = known || other.rule == h.rule && other.byDelete == h.byDelete
			}
			if !known {
				all = append(all, h)
			}
		}
	}
	return all
}
