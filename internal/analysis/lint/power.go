package lint

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"proviso.dev/proviso/internal/engine/power"
	"proviso.dev/proviso/internal/engine/ruleset"
)

// everybody are the groups and users that every caller is, or can be.
var everybody = []ruleset.Subject{{Group: true, Name: "system:authenticated"}, {Group: true, Name: "system:unauthenticated"}, {Name: "system:anonymous"}, {Group: true, Name: "system:serviceaccounts"}}

const mastersGroup = "system:masters"

// might is a request that is as good as every right, and why.
type might struct {
	verb, group, resource, sub, namespace, name string
	why                                         string
}

// mights are known ways to more than what was granted.
var mights = known()

// known are the rows of the list that are worth a warning, one request at a time.
func known() (found []might) {
	for _, r := range power.Rows() {
		if r.Where == power.Anywhere {
			continue
		}
		namespace := ""
		if r.Where == power.EveryNamespace {
			namespace = elsewhere
		}
		for _, name := range r.Resources {
			resource, sub, _ := strings.Cut(name, "/")
			for _, verb := range r.Verbs {
				found = append(found, might{verb: verb, group: r.Group, resource: resource, sub: sub, namespace: namespace, why: r.Why})
			}
		}
	}
	return found
}

func (m might) attributes() authorizer.AttributesRecord {
	return authorizer.AttributesRecord{Verb: m.verb, APIGroup: m.group, APIVersion: "v1", Resource: m.resource, Subresource: m.sub, Namespace: m.namespace, Name: m.name, ResourceRequest: true}
}

// power remarks on rules that give more than they say.
func (c *checker) power() {
	type place struct {
		role ruleset.RoleRef
		rule int
	}
	type given struct {
		why, who  []string
		all, open bool
	}
	found := map[place]*given{}
	var order []place
	for _, m := range mights {
		attrs := m.attributes()
		c.Index.Everyone(attrs, func(h ruleset.Hit) {
			if h.Effect() != ruleset.Allows || c.Ours != nil && c.Ours(h.Role()) || h.Subject() == (ruleset.Subject{Group: true, Name: mastersGroup}) {
				return
			}
			s := standing(c.Index, attrs, h.Subject())
			if s.Certainty == ruleset.Never {
				return
			}
			at := place{h.Role(), h.RuleIndex()}
			g := found[at]
			if g == nil {
				g = &given{open: true}
				found[at] = g
				order = append(order, at)
			}
			if who := named(h.Subject()); !slices.Contains(g.who, who) {
				g.who = append(g.who, who)
			}
			if !slices.Contains(g.why, m.why) {
				g.why = append(g.why, m.why)
			}
			g.all = g.all || slices.Contains(everybody, h.Subject())
			g.open = g.open && s.Certainty == ruleset.Sometimes
		})
	}
	for _, at := range order {
		g := found[at]
		severity, condition := Warning, ""
		if g.all {
			severity = Error
		}
		if g.open {
			severity, condition = Note, ", under a condition"
		}
		slices.Sort(g.who)
		c.say(Remark{Code: codePower, Severity: severity, Object: objectOf(at.role), Path: []any{"rules", at.rule}, Message: fmt.Sprintf("%s can%s: %s", few(g.who), condition, few(g.why))})
	}
}

// ways are the requests with which a subject acts as a service account of a namespace.
func ways(namespace, account string) (found []might) {
	for step := range power.AccountSteps() {
		w := might{verb: step.Verb, group: step.Group, namespace: namespace}
		w.resource, w.sub, _ = strings.Cut(step.Resource, "/")
		if step.Named() {
			w.name = account
		}
		switch step.Means {
		case power.Impersonate:
			w.why = "impersonates it"
		case power.Mint:
			w.why = "makes its tokens"
		case power.ReadSecret:
			w.why = "reads its tokens in secrets"
		case power.EnterPod:
			w.why = "runs commands in its pods"
		default:
			w.why = map[string]string{"create": "creates ", "update": "updates ", "patch": "patches "}[step.Verb] + w.resource
		}
		found = append(found, w)
	}
	return found
}

// accounts reports subjects who can do more by acting as a service account (whose rights they do not have).
func (c *checker) accounts() {
	type bound struct {
		object Object
		at     int
	}
	accounts := map[string]bound{}
	var order []string
	note := func(user string, object Object, at int) {
		if _, seen := accounts[user]; !seen && strings.HasPrefix(user, accountPrefix) {
			accounts[user] = bound{object, at}
			order = append(order, user)
		}
	}
	for _, b := range inOrder(c.PolicyBindings) {
		for _, name := range slices.Sorted(maps.Keys(b.RoleBindings)) {
			for i, u := range b.RoleBindings[name].UserNames {
				note(u, Object{policyGroup, "RoleBinding", b.Namespace, name}, i)
			}
		}
	}
	for _, b := range inOrder(c.RoleBindings) {
		for i, s := range b.Subjects {
			if s.Kind == "ServiceAccount" {
				if s.Namespace == "" {
					s.Namespace = b.Namespace
				}
				note(accountPrefix+s.Namespace+":"+s.Name, Object{rbacGroup, "RoleBinding", b.Namespace, b.Name}, i)
			}
		}
	}
	for _, b := range inOrder(c.ClusterRoleBindings) {
		for i, s := range b.Subjects {
			if s.Kind == "ServiceAccount" {
				note(accountPrefix+s.Namespace+":"+s.Name, Object{rbacGroup, "ClusterRoleBinding", "", b.Name}, i)
			}
		}
	}
	slices.Sort(order)
	for _, user := range order {
		namespace, name, _ := strings.Cut(strings.TrimPrefix(user, accountPrefix), ":")
		actors := c.actors(namespace, name, user)
		gained := c.more(ruleset.Subject{Name: user}, actors)
		var who []string
		severity := Warning
		for _, a := range actors {
			if what := gained[a.subject]; what != "" {
				who = append(who, fmt.Sprintf("%s %s and so can %s", named(a.subject), a.how, what))
				if slices.Contains(everybody, a.subject) {
					severity = Error
				}
			}
		}
		if len(who) == 0 {
			continue
		}
		at := accounts[user]
		field := "subjects"
		if at.object.Group == policyGroup {
			field = "userNames"
		}
		c.say(Remark{Code: codeAccount, Severity: severity, Object: at.object, Path: []any{field, at.at}, Message: fmt.Sprintf("%s can act as service account %s/%s: %s", plural(len(who)), namespace, name, strings.Join(who, "; "))})
	}
}

// inOrder are objects by namespace and name.
func inOrder[T metav1.Object](objects []T) []T {
	return slices.SortedFunc(slices.Values(objects), func(a, b T) int {
		return cmp.Or(cmp.Compare(a.GetNamespace(), b.GetNamespace()), cmp.Compare(a.GetName(), b.GetName()))
	})
}

func plural(n int) string {
	if n == 1 {
		return "1 subject"
	}
	return fmt.Sprintf("%d subjects", n)
}

type actor struct {
	subject ruleset.Subject
	how     string
}

// actors are those who can act as a service account, in order.
func (c *checker) actors(namespace, name, user string) (all []actor) {
	for _, w := range ways(namespace, name) {
		attrs := w.attributes()
		c.Index.Everyone(attrs, func(h ruleset.Hit) {
			s := h.Subject()
			if h.Effect() == ruleset.Allows && s.Name != user && s != (ruleset.Subject{Group: true, Name: mastersGroup}) &&
				!slices.ContainsFunc(all, func(a actor) bool { return a.subject == s }) && standing(c.Index, attrs, s).Certainty != ruleset.Never {
				all = append(all, actor{s, w.why})
			}
		})
	}
	slices.SortFunc(all, func(a, b actor) int { return a.subject.Compare(b.subject) })
	return all
}

// more finds, for each actor, something that the account can do and the actor cannot.
func (c *checker) more(account ruleset.Subject, actors []actor) map[ruleset.Subject]string {
	gained := map[ruleset.Subject]string{}
	for _, res := range c.Resources {
		for _, verb := range c.Verbs {
			namespaces := []string{""}
			if res.Namespaced {
				namespaces = append([]string{elsewhere}, c.Namespaces...)
			}
			for _, namespace := range namespaces {
				if len(gained) == len(actors) || c.budget <= 0 {
					return gained
				}
				attrs := authorizer.AttributesRecord{Verb: verb, APIGroup: res.Group, APIVersion: res.Version, Resource: res.Resource, Subresource: res.Subresource, Namespace: namespace, ResourceRequest: true}
				c.budget--
				if standing(c.Index, attrs, account).Certainty != ruleset.Always {
					continue
				}
				for _, a := range actors {
					if gained[a.subject] == "" && standing(c.Index, attrs, a.subject).Certainty == ruleset.Never {
						gained[a.subject] = action(attrs)
					}
				}
			}
		}
	}
	return gained
}

func action(a authorizer.AttributesRecord) string {
	what := a.Verb + " " + a.Resource
	if a.Subresource != "" {
		what += "/" + a.Subresource
	}
	switch a.Namespace {
	case "":
		return what
	case elsewhere:
		return what + " in every namespace"
	}
	return what + " in " + a.Namespace
}
