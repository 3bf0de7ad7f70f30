package cli

import (
	"cmp"
	"context"
	"io"
	"maps"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"

	authz "proviso.dev/proviso/api/authorization/v1alpha1"
	"proviso.dev/proviso/internal/engine/power"
	"proviso.dev/proviso/internal/platform/terminal"
)

// indirect is who could get there in another step.
type indirect struct {
	UserName  string `json:"userName,omitempty"`
	GroupName string `json:"groupName,omitempty"`
	// How is the step, and Right what it takes.
	How   string `json:"how"`
	Right string `json:"right"`
}

// helpful is a question about a right that helps to get another one.
type helpful struct{ verb, kind, name, namespace string }

func (h helpful) String() string {
	text := h.verb + " " + h.kind
	if h.name != "" {
		text += "/" + h.name
	}
	if h.namespace != "" {
		text += " in " + h.namespace
	}
	return text
}

// way is a step that leads there, with all rights that it takes, to the subject that has the right then, if it is one.
type way struct {
	how    string
	rights []helpful
	to     stone
}

// stone is a user or group that has the right: to become one of them is a step.
type stone struct {
	identity
	// conditional is one that has it under conditions.
	conditional bool
}

type identity struct{ user, group string }

const (
	rolesOfRBAC  = "roles.rbac.authorization.k8s.io"
	globalRoles  = "clusterroles.rbac.authorization.k8s.io"
	bindings     = "rolebindings.rbac.authorization.k8s.io"
	globalBinds  = "clusterrolebindings.rbac.authorization.k8s.io"
	policyRoles  = "roles.authorization.proviso.dev"
	policyBinds  = "rolebindings.authorization.proviso.dev"
	maxOfDirect  = 100
	maxOfRules   = 100
	accountStart = serviceaccount.ServiceAccountUsernamePrefix
)

// stones are the first of those who have the right, always or under conditions, and how many others there are.
func stones(s authz.ResourceAccessReviewStatus) (all []stone, others int) {
	var users, groups []stone
	for _, u := range s.UserNames {
		users = append(users, stone{identity: identity{user: u}})
	}
	for _, g := range s.GroupNames {
		groups = append(groups, stone{identity: identity{group: g}})
	}
	for _, c := range s.Conditional {
		if one := (stone{identity{c.UserName, c.GroupName}, true}); c.GroupName != "" {
			groups = append(groups, one)
		} else {
			users = append(users, one)
		}
	}
	others = max(len(users), len(groups)) - maxOfDirect
	return append(users[:min(len(users), maxOfDirect)], groups[:min(len(groups), maxOfDirect)]...), others
}

// becoming are the steps to becoming one of those who have the right in a namespace.
func becoming(namespace string, one stone) (ways []way) {
	name := cmp.Or(one.user, "a member of "+one.group)
	after := ""
	if one.conditional {
		after = ", under its conditions"
	}
	add := func(how string, rights ...helpful) {
		ways = append(ways, way{how + " " + name + after, rights, one})
	}
	accounts := func(namespace, account string) {
		for step := range power.AccountSteps() {
			right := askedIn(step, namespace)
			if step.Named() {
				right.name = account
			}
			add(meansOf[step.Means], right)
		}
	}
	account, isAccount := strings.CutPrefix(one.user, accountStart)
	of, isOf := strings.CutPrefix(one.group, serviceaccount.ServiceAccountGroupPrefix)
	switch {
	case isAccount:
		namespace, account, _ := strings.Cut(account, ":")
		accounts(namespace, account)
	case one.user != "":
		add("impersonate", helpful{"impersonate", "users", one.user, ""})
	case isOf:
		accounts(of, "")
	case one.group == serviceaccount.AllServiceAccountsGroup:
		accounts("", "")
		if namespace != "" {
			accounts(namespace, "")
		}
	}
	if one.group != "" {
		add("impersonate", helpful{"impersonate", "groups", one.group, ""}, helpful{"impersonate", "users", "", ""})
	}
	return ways
}

// meansOf are the words for steps to a service account.
var meansOf = map[power.Means]string{
	power.Impersonate: "impersonate",
	power.Mint:        "mint a token of",
	power.ReadSecret:  "read a secret with a token of",
	power.RunPod:      "run a pod as",
	power.EnterPod:    "run commands in a pod of",
}

// askedIn is the question for a step in a namespace.
func askedIn(step power.Step, namespace string) helpful {
	kind := step.Resource
	if step.Group != "" {
		resource, sub, _ := strings.Cut(kind, "/")
		if kind = resource + "." + step.Group; sub != "" {
			kind += "/" + sub
		}
	}
	return helpful{step.Verb, kind, "", namespace}
}

// waysTo are the steps that lead to a right. The roles that give it are named, since a right to bind or write may be
// limited to them.
func waysTo(namespace, kind string, s authz.ResourceAccessReviewStatus) (ways []way) {
	add := func(how string, rights ...helpful) { ways = append(ways, way{how: how, rights: rights}) }
	if namespace != "" && (kind == "secrets" || kind == "configmaps" || kind == "persistentvolumeclaims") {
		for step := range power.AccountSteps() {
			switch step.Means {
			case power.RunPod:
				add("mount it in a pod", askedIn(step, namespace))
			case power.EnterPod:
				add("run commands in a pod that has it", askedIn(step, namespace))
			}
		}
	}
	holders, _ := stones(s)
	for _, one := range holders {
		ways = append(ways, becoming(namespace, one)...)
	}
	scopes := []string{""}
	if namespace != "" {
		scopes = []string{namespace, ""}
	}
	for _, in := range scopes {
		roles, binds := []string{globalRoles, rolesOfRBAC}, bindings
		if in == "" {
			roles, binds = []string{globalRoles}, globalBinds
		}
		for _, role := range roles {
			add("bind a role that allows it", helpful{"bind", role, "", in}, helpful{"create", binds, "", in})
		}
		add("write a role that allows it", helpful{"escalate", roles[len(roles)-1], "", in}, helpful{"update", roles[len(roles)-1], "", in})
		add("bind a role of Policy that allows it", helpful{"bind", policyRoles, "", in}, helpful{"create", policyBinds, "", in})
		add("write a role of Policy that allows it", helpful{"escalate", policyRoles, "", in}, helpful{"update", policyRoles, "", in})
		if len(s.Conditional)+len(s.BlockedBy) > 0 {
			add("remove the rule that denies it", helpful{"deny", policyRoles, "", in}, helpful{"update", policyRoles, "", in})
		}
	}
	for _, r := range granting(s) {
		ways = append(ways, throughRule(r, scopes)...)
	}
	if len(s.Conditional) > 0 {
		add("change the protected attribute that denies it", helpful{"update", "clusterprotectedattributes.policy.proviso.dev", "", ""})
		add("change the field permission that denies it", helpful{"update", "fieldpermissions.policy.proviso.dev", "", ""})
	}
	return ways
}

// granting are the rules that give the right, each role and binding once.
func granting(s authz.ResourceAccessReviewStatus) (rules []authz.RuleTrace) {
	type pair struct{ role, binding authz.TracedObject }
	seen := map[pair]bool{}
	for _, subject := range s.Rules {
		for _, r := range subject.Rules {
			if at := (pair{r.Role, r.Binding}); r.Effect == authz.EffectAllow && !seen[at] && len(rules) < maxOfRules {
				seen[at] = true
				rules = append(rules, r)
			}
		}
	}
	return rules
}

// throughRule are the ways by a role that gives the right: to bind it, to join a binding of it, and to write it.
func throughRule(r authz.RuleTrace, scopes []string) (ways []way) {
	roles, binds, of := policyRoles, policyBinds, " of Policy"
	if r.Role.APIGroup == rbacv1.GroupName {
		roles, binds, of = rolesOfRBAC, bindings, ""
	}
	if r.Role.Kind == "ClusterRole" {
		roles = globalRoles
	}
	for _, in := range scopes {
		if roles == rolesOfRBAC && in != r.Role.Namespace {
			continue
		}
		place, create := in, binds
		if roles == globalRoles && in == "" {
			create = globalBinds
		}
		if roles == policyRoles {
			place = r.Role.Namespace
		}
		bind := helpful{"bind", roles, r.Role.Name, place}
		ways = append(ways, way{how: "bind a role" + of + " that allows it", rights: []helpful{bind, {"create", create, "", in}}})
		if in == r.Binding.Namespace {
			ways = append(ways, way{how: "join a binding" + of + " that allows it", rights: []helpful{bind, {"update", create, r.Binding.Name, in}}})
		}
	}
	return append(ways, way{how: "write a role" + of + " that allows it",
		rights: []helpful{{"escalate", roles, r.Role.Name, r.Role.Namespace}, {"update", roles, r.Role.Name, r.Role.Namespace}}})
}

// indirect asks which subjects that cannot do it already can take a step. It reports questions that the caller may not
// ask.
func (o *WhoCanOptions) indirect(ctx context.Context, namespace, kind string, s authz.ResourceAccessReviewStatus) ([]indirect, error) {
	direct := map[identity]bool{}
	for _, u := range s.UserNames {
		direct[identity{u, ""}] = true
	}
	for _, g := range s.GroupNames {
		direct[identity{"", g}] = true
	}
	asked, unasked, gone := map[helpful][]identity{}, []string{}, map[string]bool{}
	who := func(h helpful) ([]identity, error) {
		if all, known := asked[h]; known {
			return all, nil
		}
		review := &authz.ResourceAccessReview{
			TypeMeta: metav1.TypeMeta{APIVersion: authz.SchemeGroupVersion.String(), Kind: "ResourceAccessReview"},
			Spec:     authz.ResourceAccessReviewSpec{Verb: h.verb, ResourceKind: h.kind, ResourceName: h.name},
		}
		review.Namespace = h.namespace
		path := "/apis/" + authz.SchemeGroupVersion.String()
		if h.namespace != "" {
			path += "/namespaces/" + h.namespace
		}
		err := o.post(ctx, path+"/resourceaccessreviews", review)
		switch {
		case apierrors.IsForbidden(err):
			unasked, err = append(unasked, h.String()), nil
		case apierrors.IsNotFound(err) && h.namespace != namespace: // a holder may be an account of a namespace that is gone
			gone[h.namespace], err = true, nil
		}
		if err != nil {
			return nil, err
		}
		var all []identity
		for _, u := range review.Status.UserNames {
			all = append(all, identity{u, ""})
		}
		for _, g := range review.Status.GroupNames {
			all = append(all, identity{"", g})
		}
		for _, c := range review.Status.Conditional {
			all = append(all, identity{c.UserName, c.GroupName})
		}
		asked[h] = all
		return all, nil
	}
	var found []indirect
	seen := map[indirect]bool{}
	for _, w := range waysTo(namespace, kind, s) {
		left, err := who(w.rights[0])
		if err != nil {
			return nil, err
		}
		texts := []string{w.rights[0].String()}
		for _, right := range w.rights[1:] {
			also, err := who(right)
			if err != nil {
				return nil, err
			}
			left = slices.DeleteFunc(slices.Clone(left), func(one identity) bool { return !slices.Contains(also, one) })
			texts = append(texts, right.String())
		}
		for _, one := range left {
			entry := indirect{UserName: one.user, GroupName: one.group, How: w.how, Right: strings.Join(texts, " and ")}
			if same := (indirect{UserName: one.user, GroupName: one.group, How: w.how}); !direct[one] && one != w.to.identity && !seen[same] {
				seen[same] = true
				found = append(found, entry)
			}
		}
	}
	holders, others := stones(s)
	if others > 0 {
		terminal.Fprintf(o.ErrOut, "Warning: only the first %d users and groups were checked for ways to become one of them; use --filter to check others\n", maxOfDirect)
	}
	if slices.ContainsFunc(holders, func(one stone) bool { return one.group == serviceaccount.AllServiceAccountsGroup }) {
		terminal.Fprintf(o.ErrOut, "Warning: every service account can; subjects that can act as one of another namespace only are not listed\n")
	}
	if len(gone) > 0 {
		terminal.Fprintf(o.ErrOut, "Warning: subjects that could act as service accounts of namespaces that do not exist are not listed: %s\n", strings.Join(slices.Sorted(maps.Keys(gone)), ", "))
	}
	if len(unasked) > 0 {
		terminal.Fprintf(o.ErrOut, "Warning: you may not ask who can %s, so subjects that could use this step are not listed\n", strings.Join(unasked, ", "))
	}
	slices.SortStableFunc(found, func(a, b indirect) int {
		return cmp.Or(cmp.Compare(a.GroupName, b.GroupName), cmp.Compare(a.UserName, b.UserName))
	})
	return found, nil
}

// indirectTable prints them. Entries of the system that are hidden are mentioned, so that an empty answer does not hide
// them, too.
func indirectTable(out io.Writer, all []indirect, hidden int, wide bool) error {
	hint := cutLines("wide")
	if wide {
		hint = ""
	}
	if len(all) == 0 {
		text := "None of the steps that were asked about leads another subject to this right"
		if hidden > 0 {
			text += ", except users and groups of the system, which are hidden"
		}
		_, err := terminal.Fprintf(out, "\n%s.\n", terminal.Lines(text))
		return err
	}
	terminal.Fprintf(out, "\nOne step away:\n")
	return table(out, hint, nil, func(w io.Writer) {
		terminal.Fprintf(w, "SUBJECT\tNAME\tHOW\tBY\n")
		for _, one := range all {
			kind, name := subjectOf(one.UserName, one.GroupName)
			terminal.Fprintf(w, "%s\t%s\t%s\t%s\n", kind, name, one.How, one.Right)
		}
	})
}
