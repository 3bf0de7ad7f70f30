package compile

import (
	rbacv1 "k8s.io/api/rbac/v1"
)

// How much of a list goes into one object. A list of users can be as long as the bindings make it, and it can be split:
// a policy for some subjects is independent of one for the rest.
const (
	// maxNames is how many bytes of names an expression has, well below what a server parses.
	maxNames = 40_000
	// maxSubjects is how many subjects a binding has, well below what etcd takes.
	maxSubjects = 3_000
)

// pieces are the unit for some of its subjects each, so that they fit into an expression. Together they are the unit.
func (u *unit) pieces() (all []*unit) {
	users, groups := cutNames(u.users), cutNames(u.groups)
	if len(users) <= 1 && len(groups) <= 1 && size(u.users)+size(u.groups) <= maxNames {
		return []*unit{u}
	}
	piece := func(users, groups []string) {
		one, b := *u, *u.bound
		b.users, b.groups = users, groups
		one.bound, one.whole = &b, u
		all = append(all, &one)
	}
	for _, list := range users {
		piece(list, nil)
	}
	for _, list := range groups {
		piece(nil, list)
	}
	return all
}

func size(names []string) (n int) {
	for _, one := range names {
		n += len(one) + 4
	}
	return n
}

// cutNames cuts a list into parts that fit. One name always does.
func cutNames(names []string) (parts [][]string) {
	first, n := 0, 0
	for i, one := range names {
		if n += len(one) + 4; n > maxNames && i > first {
			parts, first, n = append(parts, names[first:i]), i, len(one)+4
		}
	}
	if first < len(names) {
		parts = append(parts, names[first:])
	}
	return parts
}

// cutSubjects cuts the subjects of a binding into parts that fit.
func cutSubjects(subjects []rbacv1.Subject) (parts [][]rbacv1.Subject) {
	for len(subjects) > maxSubjects {
		parts, subjects = append(parts, subjects[:maxSubjects]), subjects[maxSubjects:]
	}
	return append(parts, subjects)
}
