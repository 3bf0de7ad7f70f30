package protectedattr

import (
	"fmt"
	"slices"
	"strings"
)

// describe describes in words what a condition denies.
func describe(a attribute, p scoped) string {
	f, where := p.set, ""
	if !p.object {
		where = " in templates"
	}
	values := "any value"
	switch {
	case f.all && len(f.values) > 0:
		values = "any value but " + listed(f.values)
	case !f.all:
		values = listed(f.values)
	}
	var by, roles []string
	for _, p := range p.behind() {
		by = appendNew(by, p.kind()+" "+quote(p.name))
		roles = appendNew(roles, p.role.String())
	}
	return fmt.Sprintf("%s %s%s may not be set to, changed from or cleared of %s: it is protected by %s and requires being bound to %s",
		a.kind, a.key, where, values, enumerate(by, "and"), enumerate(roles, "or"))
}

// named lists the protections of a place, those of every value first.
func (l *level) named(at place, req *Request) []*protection {
	return append(applying(l.any, at, req), slices.DeleteFunc(l.applying(at, req), func(p *protection) bool { return len(p.values) == 0 })...)
}

// behind lists the protections that forbid something: those of every value, and those that list a value.
func (p scoped) behind() (some []*protection) {
	for _, by := range p.by {
		switch {
		case len(by.values) == 0, p.set.all && by.closed:
			some = append(some, by)
		case !p.set.all && slices.ContainsFunc(by.values, func(v string) bool { return slices.Contains(p.set.values, v) }):
			some = append(some, by)
		}
	}
	return some
}

func listed(values []string) string {
	texts := make([]string, len(values))
	for i, v := range values {
		texts[i] = shown(v)
	}
	return enumerate(texts, "and")
}

// expression is true for exactly the writes that the forbidden values refuse: a place in the object has another value
// than it had, and one of the two is forbidden.
func expression(a attribute, p scoped) string {
	var terms []string
	if p.object {
		terms = append(terms, a.changed(celRoot("object"), celRoot("oldObject"), p.denied))
	}
	for i := range p.sites {
		s := &p.sites[i]
		if !s.isList() {
			terms = append(terms, a.changed(celRoot("object", s.path...), celRoot("oldObject", s.path...), p.denied))
			continue
		}
		is, was := celRoot("object", s.path...)+".orValue([])", celRoot("oldObject", s.path...)+".orValue([])"
		if !p.set.none() {
			terms = append(terms, a.lost(is, was, s, p.set)) // set on an element that did not have it
		}
		if !p.gone.none() {
			terms = append(terms, a.lost(was, is, s, p.gone)) // gone from one that had
		}
	}
	return strings.Join(terms, " || ")
}

// attributes returns the path of the map of a carrier of metadata.
func (a attribute) attributes(carrier string) string {
	return carrier + ".?metadata.?" + a.kind.field()
}

func (a attribute) of(carrier string) string {
	return a.attributes(carrier) + "[?" + celString(a.key) + "]"
}

// all returns the map of a carrier of metadata, which may be empty.
func (a attribute) all(carrier string) string { return a.attributes(carrier) + ".orValue({})" }

// inDomain tests whether a key is one of those that the attribute stands for.
func (a attribute) inDomain(k string) string {
	text := k + ".startsWith(" + celString(domainOf(a.key)+"/") + ")"
	if len(a.besides) > 0 {
		text += " && !(" + k + " in " + celList(a.besides) + ")"
	}
	return text
}

// changed compares one place before and after.
func (a attribute) changed(is, was string, d denied) string {
	forbids := "p.exists(v, " + d.set.cel("v") + ")"
	switch {
	case d.same():
	case d.gone.none():
		forbids = d.set.cel("p[0]")
	default:
		forbids = "(" + d.set.cel("p[0]") + " || " + d.gone.cel("p[1]") + ")"
	}
	if domainOf(a.key) == "" {
		return fmt.Sprintf("[[%s, %s]].exists(p, p[0] != p[1] && %s)", a.of(is), a.of(was), forbids)
	}
	return fmt.Sprintf("[[%s, %s]].exists(m, m.exists(one, one.exists(k, %s && [[m[0][?k], m[1][?k]]].exists(p, p[0] != p[1] && %s))))",
		a.all(is), a.all(was), a.inDomain("k"), forbids)
}

// lost finds elements of from with a forbidden value that the element of the same name in to does not have.
func (a attribute) lost(from, to string, s *site, f forbidden) string {
	same := celPath("o", s.key...) + " == " + celPath("e", s.key...)
	if domainOf(a.key) == "" {
		return fmt.Sprintf("%s.exists(e, [%s].exists(v, %s && !%s.exists(o, %s && %s == v)))",
			from, a.of(celPath("e", s.sub...)), f.cel("v"), to, same, a.of(celPath("o", s.sub...)))
	}
	return fmt.Sprintf("%s.exists(e, %s.exists(k, %s && [%s[?k]].exists(v, %s && !%s.exists(o, %s && %s[?k] == v))))",
		from, a.all(celPath("e", s.sub...)), a.inDomain("k"), a.all(celPath("e", s.sub...)), f.cel("v"), to, same, a.all(celPath("o", s.sub...)))
}

// cel tests an optional value.
func (f forbidden) cel(v string) string {
	switch {
	case f.all && len(f.values) == 0:
		return v + ".hasValue()"
	case f.all:
		return fmt.Sprintf("%s.hasValue() && !(%s.value() in %s)", v, v, celList(f.values))
	}
	return fmt.Sprintf("%s.hasValue() && %s.value() in %s", v, v, celList(f.values))
}

// celRoot returns a path that is empty, not an error, if the object or something in it is missing.
func celRoot(variable string, names ...string) string {
	return celPath("optional.ofNonZeroValue("+variable+")", names...)
}

func celPath(base string, names ...string) string {
	for _, name := range names {
		base += ".?" + name
	}
	return base
}

func celList(values []string) string {
	texts := make([]string, len(values))
	for i, v := range values {
		texts[i] = celString(v)
	}
	return "[" + strings.Join(texts, ", ") + "]"
}

// celString returns a CEL string literal: Go's escapes mean the same in CEL for all valid UTF-8.
func celString(s string) string { return quote(strings.ToValidUTF8(s, "\uFFFD")) }
