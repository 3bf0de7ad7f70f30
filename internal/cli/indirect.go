package cli

import (
	"cmp"
	"context"
	"io"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	authz "proviso.dev/proviso/api/authorization/v1alpha1"
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

// way is a step that leads there, with all rights that it takes.
type way struct {
	how    string
	rights []helpful
}

const (
	rolesOfRBAC  = "roles.rbac.authorization.k8s.io"
	globalRoles  = "clusterroles.rbac.authorization.k8s.io"
	bindings     = "rolebindings.rbac.authorization.k8s.io"
	globalBinds  = "clusterrolebindings.rbac.authorization.k8s.io"
	policyRoles  = "roles.authorization.proviso.dev"
	policyBinds  = "rolebindings.authorization.proviso.dev"
	maxOfDirect  = 100
	maxOfRules   = 100
	accountStart = "system:serviceaccount:"
)

// workloads make pods.
var workloads = []string{"pods", "deployments.apps", "daemonsets.apps", "statefulsets.apps", "replicasets.apps", "replicationcontrollers", "jobs.batch", "cronjobs.batch"}

// waysTo are the steps that lead to a right. The first of those who have it are named, since to become one of them is a
// way, too, and so are the roles that give it: a right to bind or write may be limited to them.
func waysTo(namespace, kind string, s authz.ResourceAccessReviewStatus) (ways []way) {
	add := func(how string, rights ...helpful) { ways = append(ways, way{how, rights}) }
	if namespace != "" && (kind == "secrets" || kind == "configmaps" || kind == "persistentvolumeclaims") {
		for _, workload := range workloads {
			add("mount it in a pod", helpful{"create", workload, "", namespace})
		}
		add("exec into a pod that has it", helpful{"create", "pods/exec", "", namespace})
	}
	for _, user := range s.UserNames[:min(len(s.UserNames), maxOfDirect)] {
		account, is := strings.CutPrefix(user, accountStart)
		if !is {
			add("impersonate "+user, helpful{"impersonate", "users", user, ""})
			continue
		}
		in, name, _ := strings.Cut(account, ":")
		add("impersonate "+user, helpful{"impersonate", "serviceaccounts", name, in})
		add("mint a token of "+user, helpful{"create", "serviceaccounts/token", name, in})
		add("run a pod as "+user, helpful{"create", "pods", "", in})
		add("exec into a pod of "+user, helpful{"create", "pods/exec", "", in})
	}
	for _, group := range s.GroupNames[:min(len(s.GroupNames), maxOfDirect)] {
		add("impersonate a member of "+group, helpful{"impersonate", "groups", group, ""}, helpful{"impersonate", "users", "", ""})
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
		ways = append(ways, way{"bind a role" + of + " that allows it", []helpful{bind, {"create", create, "", in}}})
		if in == r.Binding.Namespace {
			ways = append(ways, way{"join a binding" + of + " that allows it", []helpful{bind, {"update", create, r.Binding.Name, in}}})
		}
	}
	return append(ways, way{"write a role" + of + " that allows it",
		[]helpful{{"escalate", roles, r.Role.Name, r.Role.Namespace}, {"update", roles, r.Role.Name, r.Role.Namespace}}})
}

// indirect asks which subjects that cannot do it already can take a step. It reports questions that the caller may not
// ask.
func (o *WhoCanOptions) indirect(ctx context.Context, namespace, kind string, s authz.ResourceAccessReviewStatus) ([]indirect, error) {
	type subject struct{ user, group string }
	direct := map[subject]bool{}
	for _, u := range s.UserNames {
		direct[subject{u, ""}] = true
	}
	for _, g := range s.GroupNames {
		direct[subject{"", g}] = true
	}
	asked, unasked := map[helpful][]subject{}, []string{}
	who := func(h helpful) ([]subject, error) {
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
		if apierrors.IsForbidden(err) {
			unasked, err = append(unasked, h.String()), nil
		}
		if err != nil {
			return nil, err
		}
		var all []subject
		for _, u := range review.Status.UserNames {
			all = append(all, subject{u, ""})
		}
		for _, g := range review.Status.GroupNames {
			all = append(all, subject{"", g})
		}
		for _, c := range review.Status.Conditional {
			all = append(all, subject{c.UserName, c.GroupName})
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
			left = slices.DeleteFunc(slices.Clone(left), func(one subject) bool { return !slices.Contains(also, one) })
			texts = append(texts, right.String())
		}
		for _, one := range left {
			entry := indirect{UserName: one.user, GroupName: one.group, How: w.how, Right: strings.Join(texts, " and ")}
			if same := (indirect{UserName: one.user, GroupName: one.group, How: w.how}); !direct[one] && !seen[same] {
				seen[same] = true
				found = append(found, entry)
			}
		}
	}
	if cut := max(len(s.UserNames), len(s.GroupNames)) - maxOfDirect; cut > 0 {
		terminal.Fprintf(o.ErrOut, "Warning: only the first %d users and groups were checked for ways to become one of them; use --filter to check others\n", maxOfDirect)
	}
	if len(unasked) > 0 {
		terminal.Fprintf(o.ErrOut, "Warning: you may not ask who can %s, so subjects that could use this step are not listed\n", strings.Join(unasked, ", "))
	}
	slices.SortStableFunc(found, func(a, b indirect) int {
		return cmp.Or(cmp.Compare(a.GroupName, b.GroupName), cmp.Compare(a.UserName, b.UserName))
	})
	return found, nil
}

func indirectTable(out io.Writer, all []indirect, wide bool) error {
	hint := cutLines("wide")
	if wide {
		hint = ""
	}
	if len(all) == 0 {
		_, err := terminal.Fprintf(out, "\nNo other subject can gain this right in one step.\n")
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
