package escalation

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/component-helpers/auth/rbac/validation"

	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/internal/engine/ruleset"
	"proviso.dev/proviso/internal/engine/ruleset/matching"
)

// Grant is what a writer of a role or a binding is about to grant.
type Grant struct {
	// User is the writer.
	User user.Info
	// Namespace is where the rules will apply. Empty, or for Policy the master namespace, means everywhere,
	// cluster-scoped resources and non-resource paths included.
	Namespace string
	// Policy or RBAC are the rules. Deny rules grant nothing and are ignored: they need the verb deny.
	Policy []policyv1alpha1.PolicyRule
	RBAC   []rbacv1.PolicyRule
	// Grantees are the subjects to which the rules are bound. A role has none yet; then Role names it, if it exists.
	Grantees []ruleset.Subject
	Role     ruleset.RoleRef
	// Tiers are the tiers of the index that are in the chain, in its order; nil means all of them in the usual order.
	// Rights from other tiers do not count, and what RBAC grants ahead of Policy is not denied.
	Tiers []ruleset.Tier
	// Lifted checks only what the writer is denied: the verbs escalate and bind make up for missing rights.
	Lifted bool
	// Implies reports whether the condition of wanted holds only where the condition of held does, for all callers of
	// the two. Without it SameCondition is used. It must be certain to return true; returning false only refuses.
	Implies func(wanted, held *policyv1alpha1.PolicyRule) bool
}

// mastersGroup holds everything: the chain asks no other link about it.
const mastersGroup = "system:masters"

// NeedsDeny reports whether writing these rules, or binding a role with them, needs the verb deny on the role. Check
// both the old and the new rules: removing a deny rule gives power, too.
func NeedsDeny(rules []policyv1alpha1.PolicyRule) bool {
	return slices.ContainsFunc(rules, func(r policyv1alpha1.PolicyRule) bool { return r.Deny })
}

// Covers reports whether the writer holds everything that the grant hands out, as PO-12 defines held: decided by Policy
// and RBAC together, denies applied but those that the grantees share. The error, a *NotHeld, says what is missing.
//
// Rules compare what a request says only with the names that are written in rules. So it is enough to look at requests
// that are made of those names and of one name that no rule mentions; the answer for those is the answer for all, and
// for everything that will ever be served.
func Covers(ix *ruleset.Index, g Grant) error {
	return (&comparison{index: ix}).covers(g)
}

func (c *comparison) covers(g Grant) error {
	ix := c.index
	if g.User == nil {
		return &NotHeld{Reason: "there is no user"}
	}
	if slices.Contains(g.User.GetGroups(), mastersGroup) {
		return nil
	}
	if g.Implies == nil {
		g.Implies = SameCondition
	}
	if g.Namespace == ix.MasterNamespace() && len(g.RBAC) == 0 {
		g.Namespace = "" // what Policy grants in the master namespace applies everywhere
	}
	if g.Tiers == nil {
		g.Tiers = []ruleset.Tier{ruleset.TierMaster, ruleset.TierNamespace, ruleset.TierRBAC}
	}
	w, err := writerOf(ix, g)
	if err != nil {
		return err
	}
	c.grant, c.refusal = g, &NotHeld{User: g.User.GetName(), Lifted: g.Lifted}
	upstream := sync.OnceValue(func() bool { return coversRBAC(w.rbac(), g.RBAC) })
	for _, shared := range sharesOf(ix, g, w) {
		if !w.denied(shared) && len(w.local) == 0 && (g.Lifted || upstream()) {
			continue
		}
		if c.wanted == nil {
			if c.wanted, err = wantedRules(ix, g); err != nil {
				return err
			}
		}
		if err := c.compare(w, g.Namespace, shared); err != nil {
			return err
		}
		if len(w.local) > 0 {
			if err := c.compare(w.anywhere(), anyNamespace, shared); err != nil {
				return err
			}
		}
	}
	if len(c.refusal.Gaps) == 0 {
		return nil
	}
	return c.refusal
}

// comparison is one escalation check: what is wanted is compared with what the writer holds, where it will hold and for
// each set of denies that the grantees share. All of it has one budget.
type comparison struct {
	index   *ruleset.Index
	grant   Grant
	wanted  *ruleset.Definition
	budget  budget
	refusal *NotHeld
	// everyName also checks names that do not matter (see universe). A test uses it to prove that they do not.
	everyName bool
}

// compare records what is wanted and not held in a namespace.
func (c *comparison) compare(w *writer, namespace string, shared sharedDenies) error {
	held, err := c.proofOf(w, namespace, shared)
	if err != nil {
		return err
	}
	for _, ru := range held.wanted {
		if !held.check(ru, c.refusal) {
			return errTooMuch()
		}
	}
	return nil
}

// Reaches reports whether any deny rule applies to the writer of a grant where the grant will apply. If none does,
// nothing that the writer could grant is denied. It is a superset: denies that the grantees share count, too.
func Reaches(ix *ruleset.Index, g Grant) bool {
	if g.User == nil {
		return true
	}
	if g.Tiers == nil {
		g.Tiers = []ruleset.Tier{ruleset.TierMaster, ruleset.TierNamespace, ruleset.TierRBAC}
	}
	g.Lifted = true // counts the denies of all namespaces for what holds everywhere
	w, err := writerOf(ix, g)
	return err != nil || len(w.local) > 0 || w.denied(nil)
}

// maxProduct is up to how many comparisons of names Kubernetes' own check is used.
const maxProduct = 1 << 21

// coversRBAC is Kubernetes' own check, rule by rule. What it accepts needs no further check, as long as nothing denies.
func coversRBAC(held, wanted []rbacv1.PolicyRule) bool {
	each, product := 1, 0
	for _, r := range held {
		each += 1 + len(r.Verbs) + len(r.APIGroups) + len(r.Resources) + len(r.ResourceNames) + len(r.NonResourceURLs)
	}
	for _, r := range wanted {
		product += max(1, len(r.Verbs)) * max(1, len(r.APIGroups)) * max(1, len(r.Resources)) * max(1, len(r.ResourceNames)) * max(1, len(r.NonResourceURLs))
		if product > maxProduct/each {
			return false
		}
	}
	if len(wanted) == 0 {
		return false
	}
	covered, _ := validation.Covers(held, wanted)
	return covered
}

// NotHeld is the refusal of a grant.
type NotHeld struct {
	User string
	// Gaps are the first missing rights.
	Gaps []Gap
	// More is how many more were found.
	More int
	// Reason is set instead if the question could not be decided.
	Reason string
	// Lifted is true if missing rights did not count, only denied ones.
	Lifted bool
}

func errTooMuch() *NotHeld {
	return &NotHeld{Reason: "the rules and those of the writer are too many to compare: split the role, or use fewer wildcards and unknown kinds"}
}

// maxGaps keeps a refusal readable.
const maxGaps = 10

// Gap is something that the writer does not hold.
type Gap struct {
	// Rule is the position of the rule that would grant it.
	Rule int
	// What is the request, such as `delete secrets in any other API group`.
	What string
	// Why says why it does not count as held.
	Why string
}

// Error lists what is missing.
func (n *NotHeld) Error() string {
	if n.Reason != "" {
		return "cannot tell whether the rules are held: " + n.Reason
	}
	var b strings.Builder
	what := "what they do not hold"
	if n.Lifted {
		what = "what a rule of Policy denies them"
	}
	fmt.Fprintf(&b, "user %q cannot grant %s:", n.User, what)
	for _, g := range n.Gaps {
		fmt.Fprintf(&b, "\nrule %d: %s: %s", g.Rule, g.What, g.Why)
	}
	if n.More > 0 {
		fmt.Fprintf(&b, "\nand %d more", n.More)
	}
	return b.String()
}

func (n *NotHeld) add(g Gap) {
	if slices.Contains(n.Gaps, g) {
		return
	}
	if len(n.Gaps) < maxGaps {
		n.Gaps = append(n.Gaps, g)
	} else {
		n.More++
	}
}

// wantedRules compiles the rules that are to be granted, without deny rules. A rule that cannot be read is refused: it
// could take effect later.
func wantedRules(ix *ruleset.Index, g Grant) (*ruleset.Definition, error) {
	out, problems := ix.Compile(g.Policy, g.RBAC, asText)
	for _, p := range problems {
		if !p.Deny {
			return nil, &NotHeld{Reason: p.Err.Error()}
		}
	}
	return out, nil
}

// asText replaces the compiler of conditions where only their presence counts.
func asText(_ ruleset.RoleRef, _ int, r *policyv1alpha1.PolicyRule) (matching.Condition, error) {
	return asWritten{r}, nil
}

// asWritten is a condition that is only compared.
type asWritten struct{ *policyv1alpha1.PolicyRule }

// RuleCondition implements Condition.
func (asWritten) RuleCondition() {}
