package cli

import (
	"fmt"
	"strings"

	authz "proviso.dev/proviso/api/authorization/v1alpha1"
)

var answers = map[authz.TracedAnswer]string{
	authz.AnswerAllow: "yes", authz.AnswerDeny: "no", authz.AnswerNoOpinion: "no opinion", authz.AnswerConditional: "depends on the object",
	authz.AnswerNotAsked: "not asked",
}

// explainText is a trace as people read it: the answer, the chain in its order, and what would change the answer.
func explainText(review *authz.SubjectAccessReview) string {
	var b strings.Builder
	s, trace := review.Status, review.Status.Trace
	with := ""
	if review.Spec.Content != nil {
		with = ", with this object"
	}
	switch trace.Decision {
	case authz.AnswerAllow:
		fmt.Fprintf(&b, "yes%s - %s\n", with, s.AllowReason)
	case authz.AnswerConditional:
		b.WriteString("it depends on the object\n")
	default:
		fmt.Fprintf(&b, "no%s - %s\n", with, s.DenyReason)
		if s.AllowReason != "" && !strings.Contains(s.DenyReason, s.AllowReason) {
			fmt.Fprintf(&b, "although %s\n", s.AllowReason)
		}
	}
	b.WriteString("\n")
	width := 0
	for _, a := range trace.Authorizers {
		width = max(width, len(a.Name))
	}
	for _, a := range trace.Authorizers {
		writeAuthorizer(&b, a, width, trace.DecidedBy)
	}
	if s.EvaluationError != "" {
		fmt.Fprintf(&b, "\nerror: %s\n", s.EvaluationError)
	}
	if trace.Remedy != nil {
		writeRemedy(&b, *trace.Remedy, trace.Decision == authz.AnswerConditional)
	}
	return b.String()
}

func writeAuthorizer(b *strings.Builder, a authz.AuthorizerTrace, width int, decidedBy string) {
	answer := answers[a.Answer]
	if answer == "" {
		answer = string(a.Answer)
	}
	if a.Name == decidedBy {
		answer += ", and that decides"
	}
	fmt.Fprintf(b, "%-*s  %s\n", width, a.Name, answer)
	if a.Reason != "" && len(a.Rules)+len(a.Conditions) == 0 && a.Answer != authz.AnswerNotAsked {
		fmt.Fprintf(b, "    %s\n", strings.ReplaceAll(a.Reason, "\n", "\n    "))
	}
	if a.Error != "" {
		fmt.Fprintf(b, "    error: %s\n", a.Error)
	}
	for _, r := range a.Rules {
		writeRule(b, r)
	}
	if a.MoreRules > 0 {
		fmt.Fprintf(b, "    and %d more rules\n", a.MoreRules)
	}
	for _, c := range a.Conditions {
		writeCondition(b, c)
	}
}

func writeRule(b *strings.Builder, r authz.RuleTrace) {
	mark := " "
	if r.Decides {
		mark = "*"
	}
	fmt.Fprintf(b, "  %s %s\n", mark, r.Rule)
	fmt.Fprintf(b, "      %s\n", origin(r))
	if r.Condition != nil {
		writeCondition(b, *r.Condition)
	}
	if r.Yields {
		b.WriteString("      has no effect: somebody with power over the whole cluster allows it\n")
	}
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

// longText is from which length on a condition that has a description is not printed: nobody reads it.
const longText = 200

func writeCondition(b *strings.Builder, c authz.ConditionTrace) {
	word := map[authz.ConditionEffect]string{authz.EffectAllow: "if", authz.EffectDeny: "denies if", authz.EffectNoOpinion: "no opinion if"}[c.Effect]
	text := oneLine(c.Condition.Condition)
	if text == "" {
		text = "condition " + c.ID
		if c.Value == authz.ConditionUnknown {
			text += ", which does not matter here"
		} else {
			text += ", which the request alone decides"
		}
	}
	description := c.Description
	if len(text) > longText && description != "" {
		text, description = fmt.Sprintf("condition %s is met (-o yaml has its text)\n        %s", c.ID, description), ""
	}
	fmt.Fprintf(b, "      %s %s", word, text)
	switch {
	case c.Value == authz.ConditionUnknown && c.Condition.Condition == "":
	case c.Value == authz.ConditionError:
		fmt.Fprintf(b, "\n        fails: %s", c.Error)
	default:
		fmt.Fprintf(b, "\n        is %s", strings.ToLower(string(c.Value)))
	}
	if description != "" {
		fmt.Fprintf(b, " (%s)", description)
	}
	b.WriteString("\n")
}

func writeRemedy(b *strings.Builder, r authz.Remedy, conditional bool) {
	if len(r.Remove) > 0 {
		b.WriteString("\nWhat stands in the way: take the subject out of the binding, or the rule out of the role.\n\n")
		for _, rule := range r.Remove {
			fmt.Fprintf(b, "    %s\n      %s\n", rule.Rule, origin(rule))
		}
	}
	switch {
	case r.Grant == "":
	case conditional:
		fmt.Fprintf(b, "\nThe smallest grant with which the object does not matter:\n\n%s", indent(r.Grant))
	default:
		fmt.Fprintf(b, "\nThe smallest grant that is missing:\n\n%s", indent(r.Grant))
	}
	if r.Note != "" {
		fmt.Fprintf(b, "\nNote: %s.\n", r.Note)
	}
}

func indent(text string) string {
	return "    " + strings.ReplaceAll(strings.TrimRight(text, "\n"), "\n", "\n    ") + "\n"
}
