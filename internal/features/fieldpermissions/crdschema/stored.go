package crdschema

// Files brings definitions in files, as they are written or dumped, into the form in which a server stores them: with
// what their schemas declare in an annotation.
type Files struct{}

// Store implements source.Definitions.
func (Files) Store(definition map[string]any) error {
	l := lift(definition)
	if len(l.errs) > 0 {
		return l.errs.ToAggregate()
	}
	text, err := l.record.encode()
	if err != nil || text == "" {
		return err
	}
	return annotate(definition, text, "")
}
