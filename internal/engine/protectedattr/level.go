package protectedattr

// Attribute says whether a protection is about a label or an annotation.
type Attribute uint8

// The kinds of attribute, in the order in which refusals are looked for.
const (
	Label Attribute = iota
	Annotation
)

// String is how refusals name the kind of attribute.
func (a Attribute) String() string {
	if a == Label {
		return "label"
	}
	return "annotation"
}

// field is the name of the map that holds attributes of this kind.
func (a Attribute) field() string {
	if a == Label {
		return "labels"
	}
	return "annotations"
}

// protection is one compiled ProtectedAttribute or ClusterProtectedAttribute.
type protection struct {
	name      string
	cluster   bool
	role      Role
	templates bool // scope IncludeTemplates
	values    []string
	// unreadable does not say what it protects.
	unreadable bool
}

func (p *protection) kind() string {
	if p.cluster {
		return "ClusterProtectedAttribute"
	}
	return "ProtectedAttribute"
}

// level holds the protections of one attribute key that apply together: all cluster-wide ones, or all of one
// namespace. Each level is satisfied on its own (PA-4). The zero level protects nothing.
type level struct {
	// any protects every value.
	any []*protection
	// byValue protects the listed values only.
	byValue map[string][]*protection
}

func (l *level) add(p *protection) {
	if len(p.values) == 0 {
		l.any = append(l.any, p)
		return
	}
	if l.byValue == nil {
		l.byValue = map[string][]*protection{}
	}
	for _, v := range p.values {
		if have := l.byValue[v]; len(have) > 0 && have[len(have)-1] == p {
			continue // the same value listed twice
		}
		l.byValue[v] = append(l.byValue[v], p)
	}
}

// permits tells whether value is free at this level, or the caller is a member of one role that covers it (PA-2).
func (l *level) permits(value string, inTemplate bool, req *Request) bool {
	if l == nil {
		return true
	}
	covered := false
	for _, list := range [2][]*protection{l.byValue[value], l.any} {
		for _, p := range list {
			if inTemplate && !p.templates {
				continue
			}
			if req.member(p) {
				return true
			}
			covered = true
		}
	}
	return !covered
}

// covering lists the protections of value, for the refusal.
func (l *level) covering(value string, inTemplate bool) []*protection {
	var all []*protection
	for _, list := range [2][]*protection{l.byValue[value], l.any} {
		for _, p := range list {
			if !inTemplate || p.templates {
				all = append(all, p)
			}
		}
	}
	return all
}

// rule is all that is known about one attribute key.
type rule struct {
	cluster    level
	namespaces map[string]*level
}

// at returns the namespace's own level, or nil.
func (r *rule) at(namespace string) *level {
	if namespace == "" {
		return nil
	}
	return r.namespaces[namespace]
}
