package auditrule

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"proviso.dev/proviso/api/auditregistration/v1alpha1"
)

// Source is one sink as the index sees it.
type Source struct {
	Name string
	UID  types.UID
	// Policy is the sink's policy.
	Policy v1alpha1.Policy
	// Receives is false for a sink that has nowhere to send events to. It stays inactive, so no event is created for
	// it.
	Receives bool
	// Namespace, if not empty, is the only one whose requests the source gets.
	Namespace string
	// Ended is true if the sink no longer gets events.
	Ended bool
	// Own are classes that only this source can refer to. They take precedence over shared classes of the same name.
	Own []*v1alpha1.AuditClass
	// Invalid, if not empty, is why the sink cannot be used although its policy could. The sink stays inactive.
	Invalid string
}

// Bounds of what a policy compiles to. A rule copies what its class selects, so a short policy can be large, and every
// request is matched against all of it.
const (
	maxClauses = 16384
	// maxLocalClauses is the bound for a source that belongs to a namespace: its author answers for one namespace.
	maxLocalClauses = 1024
	// shownMissing is how many missing classes are named.
	shownMissing = 16
)

// SourceOf returns the source for an AuditSink.
func SourceOf(s *v1alpha1.AuditSink) Source {
	return Source{Name: s.Name, UID: s.UID, Policy: s.Spec.Policy, Receives: s.Spec.Webhook != nil}
}

// Compile builds the index of all sources. It never fails as a whole: a source that cannot be used is inactive, and its
// entry in Sinks says why.
func Compile(sources []Source, classes []*v1alpha1.AuditClass) *Index {
	return compile(sources, classes, rowBudget)
}

func compile(sources []Source, classes []*v1alpha1.AuditClass, budget int) *Index {
	shared := newClassSet(classes)
	ix := &Index{budget: budget}
	for i := range sources {
		src := &sources[i]
		sink, byDefault, clauses := compileSink(src, shared)
		ix.add(sink, byDefault, clauses)
	}
	ix.build()
	return ix
}

func compileSink(src *Source, shared *classSet) (Sink, Level, []clause) {
	sink := Sink{Name: src.Name, UID: src.UID}
	most := maxClauses
	if src.Namespace != "" {
		most = maxLocalClauses
	}
	byDefault, clauses, err := compilePolicy(&src.Policy, src.classes(shared), &sink, most)
	switch {
	case err != nil:
		sink.Reason, sink.Message = v1alpha1.ReasonInvalid, err.Error()
	case src.Invalid != "":
		sink.Reason, sink.Message = v1alpha1.ReasonInvalid, src.Invalid
	case src.Ended:
		sink.Reason, sink.Message = v1alpha1.ReasonEnded, "spec.notAfter is past: the sink gets no events any more"
	case len(sink.Missing) > 0:
		sink.Reason = v1alpha1.ReasonClassesMissing
		sink.Message = "audit classes that do not exist: " + sink.missing() + "; the sink becomes active when they do"
	case !src.Receives:
		sink.Reason, sink.Message = v1alpha1.ReasonNoWebhook, "the sink has no webhook to send events to; set spec.webhook"
	default:
		sink.Active, sink.Reason = true, v1alpha1.ReasonActive
		if src.Namespace != "" {
			byDefault, clauses = inNamespace(src.Namespace, byDefault, clauses)
		}
		return sink, byDefault, clauses
	}
	return sink, None, nil
}

// compilePolicy lists the clauses in the order in which they apply and records in sink the number of rules and the
// missing classes. More than most clauses are an error.
func compilePolicy(policy *v1alpha1.Policy, lookup func(string) *compiledClass, sink *Sink, most int) (Level, []clause, error) {
	byDefault, ok := policyLevel(policy.Level)
	if !ok {
		return None, nil, fmt.Errorf("spec.policy.level: %q is not None, Metadata, Request or RequestResponse", policy.Level)
	}
	var clauses []clause
	missing := map[string]bool{}
	for i, rule := range policy.Rules {
		level, ok := LevelOf(rule.Level)
		if !ok {
			return None, nil, fmt.Errorf("spec.policy.rules[%d].level: %q is not None, Metadata, Request or RequestResponse", i, rule.Level)
		}
		class := lookup(rule.WithAuditClass)
		if class == nil {
			if missing[rule.WithAuditClass] {
				continue
			}
			if missing[rule.WithAuditClass] = true; len(sink.Missing) < shownMissing {
				sink.Missing = append(sink.Missing, rule.WithAuditClass)
			} else {
				sink.moreMissing++
			}
			continue
		}
		if class.err != nil {
			return None, nil, fmt.Errorf("spec.policy.rules[%d].withAuditClass: %w", i, class.err)
		}
		sink.Rules += len(class.rules)
		for _, alternatives := range class.rules {
			if len(clauses)+len(alternatives) > most {
				return None, nil, fmt.Errorf("spec.policy.rules[%d].withAuditClass: audit class %q: with it the policy selects by more than %d combinations of rule and resources; refer to fewer or smaller classes", i, rule.WithAuditClass, most)
			}
			for _, p := range alternatives {
				clauses = append(clauses, clause{p, level})
			}
		}
	}
	return byDefault, clauses, nil
}

// missing names the missing classes.
func (s *Sink) missing() string {
	names := strings.Join(s.Missing, ", ")
	if s.moreMissing > 0 {
		names = fmt.Sprintf("%s and %d more", names, s.moreMissing)
	}
	return names
}

// compiledClass is a class as predicates, or why it cannot be used.
type compiledClass struct {
	rules [][]*predicate
	err   error
}

// classSet compiles each class once, when a policy first asks for it.
type classSet struct {
	byName   map[string]*v1alpha1.AuditClass
	compiled map[string]*compiledClass
}

func newClassSet(classes []*v1alpha1.AuditClass) *classSet {
	set := &classSet{byName: make(map[string]*v1alpha1.AuditClass, len(classes)), compiled: map[string]*compiledClass{}}
	for _, c := range classes {
		set.byName[c.Name] = c
	}
	return set
}

func (s *classSet) lookup(name string) *compiledClass {
	if c := s.compiled[name]; c != nil {
		return c
	}
	class := s.byName[name]
	if class == nil {
		return nil
	}
	c := &compiledClass{}
	c.rules, c.err = flattenClass(class)
	s.compiled[name] = c
	return c
}

// classes returns how the source looks up a class: its own ones first.
func (src *Source) classes(shared *classSet) func(string) *compiledClass {
	if len(src.Own) == 0 {
		return shared.lookup
	}
	own := newClassSet(src.Own)
	return func(name string) *compiledClass {
		if c := own.lookup(name); c != nil {
			return c
		}
		return shared.lookup(name)
	}
}
