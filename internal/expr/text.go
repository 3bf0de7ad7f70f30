package expr

// Text implements Condition.
func (p *Program) Text(req *Request, effect Effect) string {
	return p.source
}

// truncateText cuts text that is too long in a way that does not parse, so
// that it cannot be taken for the condition.
func truncateText(s string) string {
	const mark = " … (truncated)"
	cut := MaxLength - len(mark)
	for cut > 0 && s[cut]&0xC0 == 0x80 {
		cut--
	}
	return s[:cut] + mark
}
