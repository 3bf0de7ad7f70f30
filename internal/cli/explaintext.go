package cli

import (
	"fmt"
	"strings"

	authz "proviso.dev/proviso/api/authorization/v1alpha1"
	"proviso.dev/proviso/internal/engine/links"
	"proviso.dev/proviso/internal/engine/verbs"
	"proviso.dev/proviso/internal/platform/terminal"
)

var answers = map[authz.TracedAnswer]string{
	authz.AnswerAllow: "yes", authz.AnswerDeny: "no", authz.AnswerNoOpinion: "no opinion", authz.AnswerConditional: "conditional",
	authz.AnswerNotAsked: "not asked",
}

// explainText is a trace as people read it: the answer, the chain in its order as a tree, and what would change the
// answer.
func explainText(review *authz.SubjectAccessReview) string {
	var b strings.Builder
	s, trace := review.Status, review.Status.Trace
	with := ""
	switch {
	case review.Spec.OldContent != nil:
		with = ", with this change"
	case review.Spec.Content != nil:
		with = ", with this object"
	}
	switch trace.Decision {
	case authz.AnswerAllow:
		terminal.Fprintf(&b, "yes%s - %s\n", with, s.AllowReason)
	case authz.AnswerConditional:
		if trace.NarrowedTo != "" {
			terminal.Fprintf(&b, "Conditional: %s.\n", narrowing("the list is narrowed to ", trace.NarrowedTo))
			break
		}
		b.WriteString("Conditional: allowed only under the conditions below. Give the object with -f or --stored to evaluate them.\n")
	default:
		terminal.Fprintf(&b, "no%s - %s\n", with, s.DenyReason)
		if s.AllowReason != "" && !strings.Contains(s.DenyReason, s.AllowReason) {
			terminal.Fprintf(&b, "although %s\n", s.AllowReason)
		}
	}
	if s.Until != nil {
		terminal.Fprintf(&b, "until %s, when the answer changes\n", spellTime(s.Until.Time))
	}
	b.WriteString("\n")
	var chain tree
	for _, a := range trace.Authorizers {
		if a.Answer == authz.AnswerNoOpinion && a.Error == "" && links.Guards(a.Name) {
			continue
		}
		chain = append(chain, authorizerNode(a, trace.DecidedBy))
	}
	chain.write(&b, "")
	if s.EvaluationError != "" {
		terminal.Fprintf(&b, "\nerror: %s\n", s.EvaluationError)
	}
	if trace.Remedy != nil {
		writeChange(&b, review.Spec, trace.Remedy.Change)
		writeRemedy(&b, *trace.Remedy, trace.Decision == authz.AnswerConditional)
	}
	return b.String()
}

// notEnforced stands in a trace for the rules that are only watched.
const notEnforced = "not-enforced"

// tree is lines with lines below them.
type tree []node

type node struct {
	text  string
	below tree
}

func (t tree) write(b *strings.Builder, indent string) {
	for i, n := range t {
		branch, below := "├─ ", "│  "
		if i == len(t)-1 {
			branch, below = "└─ ", "   "
		}
		terminal.Fprintf(b, "%s%s%s\n", indent, branch, strings.ReplaceAll(n.text, "\n", "\n"+indent+below))
		n.below.write(b, indent+below)
	}
}

func authorizerNode(a authz.AuthorizerTrace, decidedBy string) node {
	answer := answers[a.Answer]
	if answer == "" {
		answer = string(a.Answer)
	}
	if a.Name == decidedBy {
		answer += ", and that decides"
	}
	n := node{text: a.Name + ": " + answer}
	if a.Name == notEnforced {
		n.text = "not enforced"
	}
	if a.Reason != "" && len(a.Rules)+len(a.Conditions) == 0 && a.Answer != authz.AnswerNotAsked {
		n.below = append(n.below, node{text: a.Reason})
	}
	if a.Error != "" {
		n.below = append(n.below, node{text: "error: " + a.Error})
	}
	for _, r := range a.Rules {
		n.below = append(n.below, ruleNode(r))
	}
	if a.MoreRules > 0 {
		n.below = append(n.below, node{text: fmt.Sprintf("and %d more rules", a.MoreRules)})
	}
	for _, c := range a.Conditions {
		n.below = append(n.below, conditionNode(c))
	}
	return n
}

func ruleNode(r authz.RuleTrace) node {
	n := node{text: r.Rule, below: tree{{text: origin(r)}}}
	if r.Decides {
		n.text += "  <- decides"
	}
	if r.Condition != nil {
		n.below = append(n.below, conditionNode(*r.Condition))
	}
	if r.Yields {
		n.below = append(n.below, node{text: "has no effect: it is overridden by a cluster-wide grant"})
	}
	return n
}

// origin is how the subject comes by the rule.
func origin(r authz.RuleTrace) string {
	return fmt.Sprintf("rule %d of %s, through %s, to %s", r.RuleIndex, object(r.Role), object(r.Binding), subjectName(r.Subject))
}

func object(o authz.TracedObject) string {
	name := o.Name
	if o.Namespace != "" {
		name = o.Namespace + "/" + name
	}
	kind := o.Kind
	if o.APIGroup != authz.GroupName {
		kind = "RBAC " + kind
	}
	return fmt.Sprintf("%s %q", kind, name)
}

func subjectName(s authz.TracedSubject) string {
	if s.Namespace != "" {
		return fmt.Sprintf("%s %q", s.Kind, s.Namespace+"/"+s.Name)
	}
	return fmt.Sprintf("%s %q", s.Kind, s.Name)
}

// conditionNode is a condition with its value.
func conditionNode(c authz.ConditionTrace) node {
	word := map[authz.ConditionEffect]string{authz.EffectAllow: "allows if", authz.EffectDeny: "refuses if", authz.EffectNoOpinion: "no opinion if"}[c.Effect]
	if c.Condition.Condition == "" {
		text := fmt.Sprintf("%s condition %s, which ", word, c.ID)
		if c.Value == authz.ConditionUnknown {
			return node{text: text + "does not matter here"}
		}
		return node{text: text + "the request alone decides: " + value(c) + describe(c.Description)}
	}
	text, description := shortText(c.Condition.Condition, c.Description)
	n := node{text: word + " " + text}
	if strings.HasPrefix(text, "the following") {
		n.text, description = fmt.Sprintf("%s %s (-o yaml shows the condition)", word, oneLine(description)), ""
	}
	n.below = tree{{text: value(c) + describe(description)}}
	if len(c.Parts) > 1 { // the only one is the condition itself
		n.below = append(n.below, partNodes(c.Parts)...)
	}
	return n
}

// partNodes is the parts of a condition with their values, as a tree.
func partNodes(parts []authz.ConditionPart) (nodes tree) {
	for i := 0; i < len(parts); {
		end := i + 1
		for end < len(parts) && parts[end].Depth > parts[i].Depth {
			end++
		}
		text := oneLine(parts[i].Expression) + " = " + parts[i].Value
		if parts[i].Error != "" {
			text = oneLine(parts[i].Expression) + ": " + parts[i].Error
		}
		nodes = append(nodes, node{text: text, below: partNodes(parts[i+1 : end])})
		i = end
	}
	return nodes
}

func value(c authz.ConditionTrace) string {
	switch c.Value {
	case authz.ConditionError:
		return "fails: " + c.Error
	case authz.ConditionUnknown:
		return "unknown without the object"
	}
	return "is " + strings.ToLower(string(c.Value))
}

func describe(description string) string {
	if description == "" {
		return ""
	}
	return " (" + oneLine(description) + ")"
}

// writeChange says what to change in the object, which comes first: it needs nobody else.
func writeChange(b *strings.Builder, asked authz.SubjectAccessReviewSpec, change []authz.FieldChange) {
	if len(change) == 0 {
		return
	}
	title := "The smallest change of the object that would be allowed:"
	if verbs.Deletes(asked.Verb) || asked.Verb == verbs.Get {
		title = "It would be allowed if the stored object were different:"
	}
	terminal.Fprintf(b, "\n%s\n\n", title)
	for _, c := range change {
		value := c.Value
		if value == "" {
			terminal.Fprintf(b, "  %s  (remove it)\n", c.Path)
			continue
		}
		terminal.Fprintf(b, "  %s: %s\n", c.Path, value)
	}
}

func writeRemedy(b *strings.Builder, r authz.Remedy, conditional bool) {
	if len(r.Remove) > 0 {
		b.WriteString("\nTo allow it, remove the subject from the binding, or the rule from the role:\n\n")
		for _, rule := range r.Remove {
			terminal.Fprintf(b, "    %s\n      %s\n", rule.Rule, origin(rule))
		}
	}
	switch {
	case r.Grant == "":
	case len(r.Change) > 0:
		terminal.Fprintf(b, "\nThe smallest grant that allows this object as it is:\n\n%s", indent(r.Grant))
	case conditional:
		terminal.Fprintf(b, "\nThe smallest grant that allows every object:\n\n%s", indent(r.Grant))
	default:
		terminal.Fprintf(b, "\nThe smallest grant that is missing:\n\n%s", indent(r.Grant))
	}
	if r.Note != "" {
		terminal.Fprintf(b, "\nNote: %s.\n", r.Note)
	}
}

func indent(text string) terminal.Lines {
	return terminal.Lines("    " + strings.ReplaceAll(strings.TrimRight(text, "\n"), "\n", "\n    ") + "\n")
}
