package cli

import (
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	reviewv1 "proviso.dev/proviso/api/authorizationreview/v1"
	"proviso.dev/proviso/internal/engine/links"
	"proviso.dev/proviso/internal/platform/terminal"
)

func canITable(out io.Writer, s reviewv1.SubjectAccessReviewStatus) error {
	var b strings.Builder
	switch {
	case s.Allowed:
		b.WriteString("yes\n")
	case !canBecomeAllowed(s):
		b.WriteString("no")
		if s.Reason != "" {
			terminal.Fprintf(&b, " - %s", s.Reason)
		}
		b.WriteString("\n")
	default:
		b.WriteString(conditionalText(s))
	}
	if s.Until != nil {
		b.WriteString(untilText(s))
	}
	_, err := io.WriteString(out, b.String())
	return err
}

// untilText says when the answer changes, and what it is owed to.
func untilText(s reviewv1.SubjectAccessReviewStatus) string {
	text := "until " + spellTime(s.Until.Time) + ", when the answer changes"
	if s.Allowed && s.Reason != "" {
		text += ": " + oneLine(s.Reason)
	}
	return terminal.Text(text) + "\n"
}

// always is the condition of an allow that only stands in a set because of the denies beside it.
const always = "true"

// clause is one condition in words.
type clause struct {
	// words come before the text: "allowed only if".
	words, text string
	// note says what it is for and where it comes from.
	note string
}

// conditionalText says under which conditions something is allowed, and under which it is refused.
func conditionalText(s reviewv1.SubjectAccessReviewStatus) string {
	if names := onlyProtected(s); names != "" {
		return string(terminal.Sprintf("Conditional: allowed without protected attributes (%s)\n", names))
	}
	clauses := clausesOf(s)
	narrowed := ""
	for _, words := range []string{"narrowed to ", cannotNarrow} {
		if _, rest, ok := strings.Cut("; "+s.Reason, "; "+words); ok {
			narrowed = "    " + words + terminal.Text(rest) + "\n"
		}
	}
	if len(clauses) == 1 {
		return string(terminal.Sprintf("Conditional: %s\n    %s\n", strings.TrimSpace(clauses[0].words+" "+clauses[0].text), clauses[0].note)) + narrowed
	}
	var b strings.Builder
	b.WriteString("Conditional:\n")
	for _, c := range clauses {
		terminal.Fprintf(&b, "  %s\n      %s\n", strings.TrimSpace(c.words+" "+c.text), c.note)
	}
	return b.String() + narrowed
}

// cannotNarrow is how the reason begins for which a list is refused although its conditions may hold.
const cannotNarrow = "the list cannot be narrowed"

// narrowing says in words what a list is narrowed to, or why it cannot be.
func narrowing(words, to string) string {
	if strings.HasPrefix(to, cannotNarrow) {
		return strings.Repeat("\t", strings.Count(words, "\t")) + to
	}
	return words + to
}

// clausesOf lists the conditions in the order of the chain. What is allowed by one condition alone is allowed only if
// it holds; with several, any of them is enough.
func clausesOf(s reviewv1.SubjectAccessReviewStatus) []clause {
	alternatives := 0
	for _, e := range s.ConditionsChain {
		if e.Allowed {
			alternatives++
		}
		for _, c := range e.Conditions {
			if c.Effect == reviewv1.EffectAllow {
				alternatives++
			}
		}
	}
	allow := "allowed only if"
	if alternatives > 1 {
		allow = "allowed if"
	}
	var clauses []clause
	for _, e := range s.ConditionsChain {
		if names := protectedNames(e); names != "" {
			clauses = append(clauses, clause{"refused if", "it sets, changes or removes a protected attribute", note(e.AuthorizerName, names, "")})
			continue
		}
		for _, c := range e.Conditions {
			if c.Effect == reviewv1.EffectAllow && c.Condition == always {
				clauses = append(clauses, clause{"otherwise allowed", "", note(e.AuthorizerName, c.Description, c.ID)})
				continue
			}
			words := map[reviewv1.ConditionEffect]string{reviewv1.EffectAllow: allow, reviewv1.EffectDeny: "refused if", reviewv1.EffectNoOpinion: "no opinion if"}[c.Effect]
			text, description := shortText(c.Condition, c.Description)
			clauses = append(clauses, clause{words, text, note(e.AuthorizerName, description, c.ID)})
		}
		switch {
		case e.Allowed:
			clauses = append(clauses, clause{"otherwise allowed", "", note(e.AuthorizerName, e.Reason, "")})
		case e.Denied:
			clauses = append(clauses, clause{"otherwise refused", "", note(e.AuthorizerName, e.Reason, "")})
		}
	}
	return clauses
}

// maxProtected is how many protected attributes are named.
const maxProtected = 5

// protectedNames are the attributes that a caller may not set; empty if the conditions are others (PA-15).
func protectedNames(e reviewv1.SubjectAccessReviewConditionSet) string {
	if e.AuthorizerName != links.ProtectedAttributes || len(e.Conditions) == 0 {
		return ""
	}
	var names []string
	for _, c := range e.Conditions {
		for one := range strings.SplitSeq(c.Description, "; ") {
			name, rest, _ := strings.Cut(one, " may not be ")
			if _, values, some := strings.Cut(rest, " cleared of "); some {
				values, _, _ = strings.Cut(values, ": it is protected")
				if values != "any value" {
					name += " (" + values + ")"
				}
			}
			if name = oneLine(name); !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	if more := len(names) - maxProtected; more > 0 {
		names = append(names[:maxProtected], "and "+strconv.Itoa(more)+" more")
	}
	return strings.Join(names, ", ")
}

// onlyProtected are the attributes if nothing else stands in the way: the rest of the chain allows.
func onlyProtected(s reviewv1.SubjectAccessReviewStatus) (names string) {
	allowed := false
	for _, e := range s.ConditionsChain {
		switch protected := protectedNames(e); {
		case protected != "":
			names = protected
		case e.Allowed && !allowed:
			allowed = true
		default:
			return ""
		}
	}
	if !allowed {
		return ""
	}
	return names
}

// note is what stands below a condition.
func note(authorizer, description, id string) string {
	from := authorizer
	if id != "" {
		from += ", " + id
	}
	if description == "" {
		return "(" + from + ")"
	}
	return oneLine(description) + " (" + from + ")"
}

// longText is the length from which a condition is not printed: it is unreadable, and -o yaml has it.
const longText = 200

// shortText is a condition that people can read: its text, or if that is too long what it is for.
func shortText(text, description string) (short, rest string) {
	text = oneLine(text)
	switch {
	case len(text) <= longText:
		return text, description
	case description != "":
		return "the following holds (-o yaml shows the condition):", description
	}
	cut := longText
	for !utf8.RuneStart(text[cut]) {
		cut--
	}
	return text[:cut] + " … (-o yaml shows the rest)", ""
}
