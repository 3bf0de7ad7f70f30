package protectedattr

import (
	"fmt"
	"slices"
	"strings"
)

// describe says in words what a condition denies.
func describe(kind Attribute, key string, part scoped, l *level) string {
	f, where := part.object, ""
	if f.none() {
		f, where = part.templates, " in templates"
	}
	values := "any value"
	switch {
	case f.all && len(f.values) > 0:
		values = "any value but " + listed(f.values)
	case !f.all:
		values = listed(f.values)
	}
	var by, roles []string
	for _, p := range l.named(f) {
		by = appendNew(by, p.kind()+" "+quote(p.name))
		roles = appendNew(roles, p.role.String())
	}
	return fmt.Sprintf("%s %s%s may not be set to, changed from or cleared of %s: it is protected by %s and requires being bound to %s",
		kind, key, where, values, enumerate(by, "and"), enumerate(roles, "or"))
}

// named lists the protections behind what is forbidden.
func (l *level) named(f forbidden) []*protection {
	all := slices.Clone(l.any)
	if f.all {
		return all
	}
	for _, v := range f.values {
		for _, p := range l.byValue[v] {
			if !slices.Contains(all, p) {
				all = append(all, p)
			}
		}
	}
	return all
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
func expression(kind Attribute, key string, part scoped, sites []site) string {
	attribute := func(carrier string) string {
		return carrier + ".?metadata.?" + kind.field() + "[?" + celString(key) + "]"
	}
	var terms []string
	if !part.object.none() {
		terms = append(terms, changed(attribute(celRoot("object")), attribute(celRoot("oldObject")), part.object))
	}
	if !part.templates.none() {
		for i := range sites {
			s := &sites[i]
			if !s.isList() {
				terms = append(terms, changed(attribute(celRoot("object", s.path...)), attribute(celRoot("oldObject", s.path...)), part.templates))
				continue
			}
			is, was := celRoot("object", s.path...)+".orValue([])", celRoot("oldObject", s.path...)+".orValue([])"
			value := func(element string) string { return attribute(celPath(element, s.sub...)) }
			terms = append(terms,
				lost(is, was, s, value, part.templates), // set on an element that did not have it
				lost(was, is, s, value, part.templates)) // gone from one that had
		}
	}
	return strings.Join(terms, " || ")
}

// changed compares one place before and after.
func changed(is, was string, f forbidden) string {
	return fmt.Sprintf("[[%s, %s]].exists(p, p[0] != p[1] && p.exists(v, %s))", is, was, f.cel("v"))
}

// lost finds elements of from that have a forbidden value which the element of that name in to does not have.
func lost(from, to string, s *site, value func(string) string, f forbidden) string {
	return fmt.Sprintf("%s.exists(e, [%s].exists(v, %s && !%s.exists(o, %s == %s && %s == v)))",
		from, value("e"), f.cel("v"), to, celPath("o", s.key...), celPath("e", s.key...), value("o"))
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

// celRoot is a path that is empty, and no error, where the object or something in it is missing.
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

// celString is a CEL string literal: Go's escapes mean the same there for everything that is valid UTF-8.
func celString(s string) string { return quote(strings.ToValidUTF8(s, "\uFFFD")) }
