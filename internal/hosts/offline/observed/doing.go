package observed

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"maps"
	"slices"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"proviso.dev/proviso/internal/analysis/auditlog"
	"proviso.dev/proviso/internal/analysis/suggest"
	"proviso.dev/proviso/internal/engine/ruleset"
	"proviso.dev/proviso/internal/hosts/offline"
)

// Doing is what one subject was seen doing.
type Doing struct {
	who      *user.DefaultInfo
	uses     map[suggest.Use]int
	requests int
	// lifts are the verbs on roles that writes of policy may have needed, by use.
	lifts map[suggest.Use][]suggest.Use
	changes
}

func (d *Doing) add(who *user.DefaultInfo, u suggest.Use) {
	if d.who == nil {
		d.who = &user.DefaultInfo{Name: who.Name, UID: who.UID, Groups: slices.Clone(who.Groups), Extra: who.Extra}
	}
	for _, g := range who.Groups {
		if !slices.Contains(d.who.Groups, g) {
			d.who.Groups = append(d.who.Groups, g)
		}
	}
	d.uses[u]++
}

// Complete adds what a subject was seen doing to what all suggestions have in common. fields is whether rights to
// single fields may be suggested.
func (d *Doing) Complete(in suggest.Input, s ruleset.Subject, fields bool) suggest.Input {
	in.Subject, in.Who, in.Name = s, d.who, "suggested-"+nameOf(offline.SubjectOf(s))
	in.Uses = slices.SortedFunc(maps.Keys(d.uses), suggest.Use.Compare)
	if s.Group {
		in.Who = &user.DefaultInfo{Groups: []string{s.Name, user.AllAuthenticated}}
	}
	in.Checked, in.Touched, in.Lifts = d.checked, d.objects(), d.lifts
	if fields {
		in.Writes = d.writes()
	}
	return in
}

// Requests is how many requests succeeded.
func (d *Doing) Requests() int { return d.requests }

// Read finds out what subjects did in an audit log: those that are wanted or, without any, every user.
func Read(ctx context.Context, log io.Reader, host *offline.Host, wanted []ruleset.Subject) (map[ruleset.Subject]*Doing, auditlog.Tally, error) {
	seen, states := map[ruleset.Subject]*Doing{}, newBodies(host)
	tally, err := auditlog.Read(ctx, log, auditlog.Config{Workers: 1, Each: func(_ int, r *auditlog.Request) {
		if !Succeeded(r) {
			return
		}
		what := states.change(r)
		handsOut := lifts(host, r)
		note := func(who *user.DefaultInfo, what *change, uses ...suggest.Use) {
			subjects := []ruleset.Subject{{Name: who.Name}}
			for _, g := range who.Groups {
				subjects = append(subjects, ruleset.Subject{Group: true, Name: g})
			}
			for i, s := range subjects {
				if len(wanted) > 0 && !slices.Contains(wanted, s) || len(wanted) == 0 && i > 0 {
					continue
				}
				if seen[s] == nil {
					seen[s] = &Doing{uses: map[suggest.Use]int{}, changes: newChanges()}
				}
				seen[s].requests++
				for _, u := range uses {
					u = scoped(host, u)
					seen[s].add(who, u)
					seen[s].take(u, what)
					if what != nil && u.Verb == r.Verb {
						seen[s].addLifts(u, handsOut)
					}
				}
			}
		}
		u := suggest.Use{Verb: r.Verb, Group: r.Group, Resource: r.Resource, Subresource: r.Subresource, Namespace: r.Namespace, Name: r.Name}
		if !r.IsResource() {
			u = suggest.Use{Verb: r.Verb, Path: r.Path()}
		}
		note(r.User, what, append([]suggest.Use{u}, besides(host, r, u)...)...)
		if r.By != nil {
			note(r.By, nil, impersonations(r, u)...)
		}
	}})
	return seen, tally, err
}

// scoped is a use as the rules see it.
func scoped(host *offline.Host, u suggest.Use) suggest.Use {
	u.Namespace = host.Scoped(&authorizer.AttributesRecord{Verb: u.Verb, APIGroup: u.Group, Resource: u.Resource, Subresource: u.Subresource,
		Namespace: u.Namespace, Name: u.Name, ResourceRequest: u.Path == ""}).GetNamespace()
	return u
}

// Succeeded reports whether a request was not refused.
func Succeeded(r *auditlog.Request) bool {
	return r.Decision != "forbid" && r.Code != 401 && r.Code != 403 && (r.Decision == "allow" || r.Code != 0)
}

// askedAtOnce is the number of groups, or of extra values, from which on upstream first asks for all of them.
const askedAtOnce = 4

// impersonations are what acting as another user needs. Groups that the server adds by itself need no right. By
// constrained impersonation, the verbs name the mode, and the request itself takes a right, too.
func impersonations(r *auditlog.Request, request suggest.Use) (uses []suggest.Use) {
	who, verb, group := r.User, "impersonate", ""
	mode, constrained := strings.CutPrefix(r.Constraint, "impersonate:")
	if constrained {
		verb, group = r.Constraint, authenticationv1.GroupName
		on := request
		on.Verb = "impersonate-on:" + mode + ":" + request.Verb
		uses = append(uses, on)
	}
	account, isAccount := strings.CutPrefix(who.Name, "system:serviceaccount:")
	node, isNode := strings.CutPrefix(who.Name, "system:node:")
	switch {
	case isAccount:
		namespace, name, _ := strings.Cut(account, ":")
		uses = append(uses, suggest.Use{Verb: verb, Group: group, Resource: "serviceaccounts", Namespace: namespace, Name: name})
	case constrained && mode == "associated-node":
		uses = append(uses, suggest.Use{Verb: verb, Group: group, Resource: "nodes", Name: "*"})
	case constrained && isNode:
		uses = append(uses, suggest.Use{Verb: verb, Group: group, Resource: "nodes", Name: node})
	case who.Name != "":
		uses = append(uses, suggest.Use{Verb: verb, Group: group, Resource: "users", Name: who.Name})
	}
	var groups []string
	for _, g := range who.Groups {
		if g != user.AllAuthenticated && g != user.AllUnauthenticated && !strings.HasPrefix(g, "system:serviceaccounts") && !(constrained && isNode) {
			groups = append(groups, g)
		}
	}
	if constrained && len(groups) >= askedAtOnce {
		groups = append(groups, "*")
	}
	for _, g := range groups {
		uses = append(uses, suggest.Use{Verb: verb, Group: group, Resource: "groups", Name: g})
	}
	if who.UID != "" {
		uses = append(uses, suggest.Use{Verb: verb, Group: authenticationv1.GroupName, Resource: "uids", Name: who.UID})
	}
	extra, values := suggest.Use{Verb: verb, Group: authenticationv1.GroupName, Resource: "userextras"}, 0
	for key, all := range who.Extra {
		for _, value := range all {
			extra.Subresource, extra.Name = key, value
			uses, values = append(uses, extra), values+1
		}
	}
	if constrained && values >= askedAtOnce {
		extra.Subresource, extra.Name = "*", "*"
		uses = append(uses, extra)
	}
	return uses
}

// nameOf is a name for objects, another one for every subject: sa.NAMESPACE.NAME, group.NAME or the user. A text that
// cannot be a name is followed by what tells it from others.
func nameOf(s offline.Subject) string {
	text := s.User
	switch {
	case s.Group != "":
		text = "group." + s.Group
	case s.ServiceAccount != "":
		text = "sa." + strings.Replace(s.ServiceAccount, "/", ".", 1)
	}
	out := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '.' || r == '-' {
			return r
		}
		return '-'
	}, text)
	out = strings.Trim(out[:min(len(out), 200)], "-.")
	if out != text || strings.Contains(out, "..") || s.User != "" && (strings.HasPrefix(out, "sa.") || strings.HasPrefix(out, "group.")) {
		sum := sha256.Sum256([]byte(s.String()))
		return strings.TrimLeft(strings.ReplaceAll(out, "..", "-")+"-"+hex.EncodeToString(sum[:4]), "-.")
	}
	return out
}
