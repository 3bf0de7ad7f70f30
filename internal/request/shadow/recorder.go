package shadow

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/warning"

	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"

	"proviso.dev/proviso/internal/engine/shadowrule"
	"proviso.dev/proviso/internal/request/authorize"
	"proviso.dev/proviso/internal/request/requestctx"
)

// AnnotationPrefix is the prefix of the audit annotations, one for each rule that would have changed the answer.
const AnnotationPrefix = "shadow.proviso.dev/"

// The record is bounded, however many rules are written and however many requests come.
const (
	// maxRules is how many rules are counted. Further ones are not counted, and remain not enforced.
	maxRules = 1024
	// maxFlips is how many flips of a rule are kept, the most recent ones.
	maxFlips = 16
	// maxText is how much of a name is kept.
	maxText = 256
)

// Answer is the result of a request.
type Answer string

// The answers.
const (
	Allow Answer = "Allow"
	Deny  Answer = "Deny"
	// Undecided: the rule depends on an object that was never read, or on an authorizer that was not asked.
	Undecided Answer = "Undecided"
)

// AnswerOf returns the answer to a decided request.
func AnswerOf(allowed bool) Answer {
	if allowed {
		return Allow
	}
	return Deny
}

// Flip is a request that the rule would have answered differently.
type Flip struct {
	Time                            time.Time
	User, Verb                      string
	APIGroup, Resource, Subresource string
	Namespace, Name, Path           string
	Was, Would                      Answer
}

// Report is what is known about a rule.
type Report struct {
	shadowrule.Rule
	// Since is when this server began to count.
	Since time.Time
	// Applied counts the requests that the rule applied to; the other counters count subsets of them.
	Applied, WouldAllow, WouldDeny, Undecided int64
	// Flips are the most recent flips, the newest first.
	Flips []Flip
}

// Recorder counts. The zero value is not usable.
type Recorder struct {
	now func() time.Time

	mu    sync.Mutex
	rules map[shadowrule.ID]*entry
	// missed counts what belongs to rules that are not counted.
	missed int64
}

type entry struct {
	Report
	ring [maxFlips]Flip
	next int
}

// New returns an empty recorder.
func New(now func() time.Time) *Recorder {
	return &Recorder{now: now, rules: map[shadowrule.ID]*entry{}}
}

// Keep sets the current rules. For a rule that has changed, counting restarts; a rule that is gone is dropped.
func (r *Recorder) Keep(rules []shadowrule.Rule) {
	r.mu.Lock()
	defer r.mu.Unlock()
	there := make(map[shadowrule.ID]bool, len(rules))
	for _, rule := range rules {
		there[rule.ID] = true
	}
	for id, e := range r.rules {
		if !there[id] {
			forget(e.Rule)
			delete(r.rules, id)
		}
	}
	for _, rule := range rules {
		switch e := r.rules[rule.ID]; {
		case e != nil && (e.Text == rule.Text || e.Text == 0):
			e.Rule = rule
		case e != nil:
			forget(e.Rule)
			r.rules[rule.ID] = &entry{Report: Report{Rule: rule, Since: r.now()}}
		default:
			r.entry(rule)
		}
	}
}

// entry finds or creates the entry of a rule; nil if there are too many.
func (r *Recorder) entry(rule shadowrule.Rule) *entry {
	e := r.rules[rule.ID]
	if e == nil && len(r.rules) < maxRules {
		e = &entry{Report: Report{Rule: rule, Since: r.now()}}
		r.rules[rule.ID] = e
	}
	return e
}

// Note records how a rule would have decided a request: in memory, in metrics, in the audit event and, if the rule
// warns, as a warning to the caller.
func (r *Recorder) Note(ctx context.Context, rule shadowrule.Rule, attrs authorizer.Attributes, was, would Answer) {
	r.Count(rule, attrs, was, would)
	if was == would {
		return
	}
	key, value := AnnotationPrefix+rule.ID.String(), "would be "+spell(would)
	if rule.Hides && authorize.IsRead(attrs) {
		value = "would see less"
		if would == Undecided {
			value = "might see less"
		}
	}
	if event := audit.AuditContextFrom(ctx); event != nil {
		if _, known := event.GetEventAnnotation(key); !known { // a deletecollection has many objects
			audit.AddAuditAnnotation(ctx, key, value)
		}
	}
	text := ""
	if rule.Enforcement == policyv1alpha1.EnforcementWarn {
		if text = warningOf(rule, attrs, would); text != "" {
			warning.AddWarning(ctx, "", text)
		}
	}
	if c := requestctx.CollectorOf(ctx); c != nil {
		c.Collect(rule.ID, value, text)
	}
}

// Count records it only in memory and in metrics, for rules that are too many for one request and its event.
func (r *Recorder) Count(rule shadowrule.Rule, attrs authorizer.Attributes, was, would Answer) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e := r.entry(rule)
	if e == nil {
		r.missed++
		return
	}
	e.Applied++
	if was == would {
		return
	}
	switch would {
	case Allow:
		e.WouldAllow++
	case Deny:
		e.WouldDeny++
	case Undecided:
		e.Undecided++
	}
	observe(rule, would)
	e.ring[e.next%maxFlips] = r.flip(attrs, was, would)
	e.next++
}

func (r *Recorder) flip(attrs authorizer.Attributes, was, would Answer) Flip {
	f := Flip{Time: r.now(), Was: was, Would: would}
	if attrs == nil {
		return f
	}
	if u := attrs.GetUser(); u != nil {
		f.User = cut(u.GetName())
	}
	f.Verb = cut(attrs.GetVerb())
	if attrs.IsResourceRequest() {
		f.APIGroup, f.Resource, f.Subresource = cut(attrs.GetAPIGroup()), cut(attrs.GetResource()), cut(attrs.GetSubresource())
		f.Namespace, f.Name = cut(attrs.GetNamespace()), cut(attrs.GetName())
	} else {
		f.Path = cut(attrs.GetPath())
	}
	return f
}

// cut copies the part that is kept, so it does not hold the whole request in memory.
func cut(s string) string {
	if len(s) > maxText {
		s = s[:maxText]
		for len(s) > 0 && !utf8.ValidString(s) {
			s = s[:len(s)-1]
		}
		s += "…"
	}
	return strings.Clone(s)
}

// List returns what is known about the rules, in order.
func (r *Recorder) List() []Report {
	r.mu.Lock()
	defer r.mu.Unlock()
	var all []Report
	for _, e := range r.rules {
		report := e.Report
		for i := e.next - 1; i >= 0 && i >= e.next-maxFlips; i-- {
			report.Flips = append(report.Flips, e.ring[i%maxFlips])
		}
		all = append(all, report)
	}
	slices.SortFunc(all, func(a, b Report) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Index, b.Index))
	})
	return all
}

func spell(a Answer) string {
	switch a {
	case Allow:
		return "allowed"
	case Deny:
		return "denied"
	}
	return "undecided"
}

// warningOf returns the warning to the caller. For a rule that would deny, it is what the refusal would say. For a rule
// that would allow, it does not name the rule: a refused caller is not told who could be let in (TR-6).
func warningOf(rule shadowrule.Rule, attrs authorizer.Attributes, would Answer) string {
	switch would {
	case Deny:
		if rule.Hides && authorize.IsRead(attrs) {
			return fmt.Sprintf("this answer will have less in it once %s is enforced: %s", rule.Describe(), rule.Description)
		}
		text := fmt.Sprintf("this request will be denied once %s is enforced", rule.Describe())
		if rule.Description != "" {
			text += ": " + rule.Description
		}
		return text
	case Allow:
		return "a rule that is not enforced yet would allow this request"
	}
	return ""
}
