package policytest

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/authentication/user"

	authz "proviso.dev/proviso/api/authorization/v1alpha1"
	"proviso.dev/proviso/internal/engine/verbs"
	"proviso.dev/proviso/internal/hosts/offline"
)

// Result is the result of one case.
type Result struct {
	File     string   `json:"file"`
	Test     string   `json:"test"`
	Case     string   `json:"case"`
	Passed   bool     `json:"passed"`
	Decision string   `json:"decision,omitempty"`
	Rule     string   `json:"rule,omitempty"`
	Problems []string `json:"problems,omitempty"`
	// Trace is how the decision came about, of a case that failed.
	Trace *authz.DecisionTrace `json:"trace,omitempty"`
}

// Report is the result of a run.
type Report struct {
	APIVersion string    `json:"apiVersion"`
	Kind       string    `json:"kind"`
	Passed     int       `json:"passed"`
	Failed     int       `json:"failed"`
	Cases      []Result  `json:"cases"`
	Coverage   *Coverage `json:"coverage,omitempty"`
}

// Runner decides the cases of tests.
type Runner struct {
	// MasterNamespace is the namespace whose policy applies everywhere, for tests that do not name one.
	MasterNamespace string
	// At is the instant of all cases that name none; nil is now.
	At *metav1.Time
	// Only leaves out the cases whose TEST/CASE does not match; nil decides all.
	Only *regexp.Regexp
	// Coverage counts the rules that decided; nil counts nothing.
	Coverage *Coverage
	// Managed decides by what a managed cluster enforces, and not by what the policy says. Accept is what to do
	// without.
	Managed bool
	Accept  []string
}

// Run decides every case. A test whose policy cannot be read is an error, with its place.
func (r *Runner) Run(ctx context.Context, tests []*Test) (*Report, error) {
	out := &Report{APIVersion: offline.ToolsVersion, Kind: "PolicyTestReport", Cases: []Result{}, Coverage: r.Coverage}
	for _, test := range tests {
		master := r.MasterNamespace
		if test.MasterNamespace != "" {
			master = test.MasterNamespace
		}
		decide, host, err := r.decider(ctx, test, master)
		if err != nil {
			return nil, fmt.Errorf("%s: policies: %w", test.file, err)
		}
		if r.Coverage != nil {
			if err := r.Coverage.rulesOf(host, test.file); err != nil {
				return nil, err
			}
		}
		cases := slices.DeleteFunc(slices.Clone(test.Cases), func(c Case) bool {
			return r.Only != nil && !r.Only.MatchString(test.Metadata.Name+"/"+c.Name)
		})
		for _, result := range r.decideAll(decide, cases) {
			result.File, result.Test = test.file, test.Metadata.Name
			if result.Passed {
				out.Passed++
			} else {
				out.Failed++
			}
			out.Cases = append(out.Cases, result)
		}
	}
	if r.Coverage != nil {
		r.Coverage.count()
	}
	return out, nil
}

// decideAll decides cases on all processors; the results are in the order of the cases.
func (r *Runner) decideAll(decide func(*Case) Result, cases []Case) []Result {
	results := make([]Result, len(cases))
	var next atomic.Int64
	var done sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), len(cases)) {
		done.Go(func() {
			for i := next.Add(1) - 1; i < int64(len(cases)); i = next.Add(1) - 1 {
				results[i] = decide(&cases[i])
				results[i].Case = cases[i].Name
			}
		})
	}
	done.Wait()
	return results
}

// decider decides the cases of a test. The host is nil for a managed cluster.
func (r *Runner) decider(ctx context.Context, test *Test, master string) (func(*Case) Result, *offline.Host, error) {
	if r.Managed {
		there, err := test.enforced(master, r.Accept)
		return func(c *Case) Result { return decideThere(ctx, there, c) }, nil, err
	}
	host, err := offline.New(offline.Config{Paths: test.paths, Texts: test.texts, MasterNamespace: master})
	return func(c *Case) Result { return r.decide(ctx, host, c) }, host, err
}

// decide asks for one case and compares.
func (r *Runner) decide(ctx context.Context, host *offline.Host, c *Case) Result {
	spec := authz.SubjectAccessReviewSpec{Verb: c.Verb, ResourceKind: c.Resource, ResourceName: c.ObjectName, Trace: true, Time: c.At}
	if c.At == nil {
		spec.Time = r.At
	}
	content, old := c.Object, c.OldObject
	if content == nil || verbs.Deletes(c.Verb) {
		if old != nil {
			content, old = old, nil
		}
	}
	problems := []string{}
	for _, body := range []struct {
		object map[string]any
		to     **apiruntime.RawExtension
	}{{content, &spec.Content}, {old, &spec.OldContent}} {
		if body.object == nil {
			continue
		}
		raw, err := json.Marshal(body.object)
		if err != nil {
			return Result{Problems: []string{err.Error()}}
		}
		*body.to = &apiruntime.RawExtension{Raw: raw}
	}
	who := &user.DefaultInfo{Name: c.User, Groups: c.Groups, Extra: c.Extra}
	if !slices.Contains(who.Groups, user.AllUnauthenticated) && !slices.Contains(who.Groups, user.AllAuthenticated) {
		who.Groups = append(slices.Clone(who.Groups), user.AllAuthenticated)
	}
	status, err := r.ask(ctx, host, who, c, spec)
	if err != nil {
		return Result{Problems: []string{err.Error()}}
	}
	if status.Trace == nil && status.EvaluationError == "" {
		return Result{Passed: true, Decision: c.Expect.Decision}
	}
	if status.Trace == nil {
		return Result{Problems: []string{"the question cannot be answered: " + status.EvaluationError}}
	}
	got := Result{Decision: "Deny", Rule: "none"}
	switch {
	case status.Allowed:
		got.Decision = "Allow"
	case status.Trace.Decision == authz.AnswerConditional && spec.Content == nil:
		got.Decision = "Conditional"
	}
	words := []string{status.EvaluationError, status.DenyReason}
	if status.Allowed {
		words = []string{status.AllowReason}
	}
	rules := decidingRules(status.Trace, got.Decision)
	for _, rule := range rules {
		r.Coverage.decided(rule)
		if rule.Condition != nil {
			words = append(words, rule.Condition.Description)
		}
	}
	if len(rules) > 0 {
		got.Rule = RuleName(rules[0])
	}
	if got.Decision != c.Expect.Decision {
		problems = append(problems, fmt.Sprintf("decision is %s, want %s", got.Decision, c.Expect.Decision))
	}
	if want := c.Expect.Rule; want != "" && got.Rule != want && !slices.ContainsFunc(rules, func(rule authz.RuleTrace) bool { return RuleName(rule) == want }) {
		problems = append(problems, fmt.Sprintf("decided by rule %s, want %s", got.Rule, want))
	}
	if want := c.Expect.Message; want != "" && !strings.Contains(strings.Join(words, "\n"), want) {
		problems = append(problems, fmt.Sprintf("the message is %q, want %q in it", strings.TrimSpace(strings.Join(words, " ")), want))
	}
	got.Passed = len(problems) == 0
	if !got.Passed {
		got.Problems, got.Trace = problems, status.Trace
	}
	return got
}

// ask decides a case without its trace, which takes ten times as long, if the answer alone is expected and right.
func (r *Runner) ask(ctx context.Context, host *offline.Host, who user.Info, c *Case, spec authz.SubjectAccessReviewSpec) (authz.SubjectAccessReviewStatus, error) {
	final := spec.Content != nil || c.Expect.Decision == "Allow"
	if r.Coverage == nil && c.Expect.Rule == "" && c.Expect.Message == "" && final {
		spec.Trace = false
		status, err := host.Ask(ctx, who, c.Namespace, spec)
		if err == nil && status.EvaluationError == "" && status.Allowed == (c.Expect.Decision == "Allow") {
			return status, nil
		}
		spec.Trace = true
	}
	return host.Ask(ctx, who, c.Namespace, spec)
}

// decidingRules are the rules that made the decision; with a conditional one, those that will.
func decidingRules(trace *authz.DecisionTrace, decision string) (rules []authz.RuleTrace) {
	for _, a := range trace.Authorizers {
		for _, rule := range a.Rules {
			open := rule.Condition != nil && rule.Condition.Value == authz.ConditionUnknown && !rule.Yields
			if rule.Decides || decision == "Conditional" && open && a.Answer == authz.AnswerConditional {
				rules = append(rules, rule)
			}
		}
	}
	return rules
}

// RuleName is the role of a rule: namespace/name, or name.
func RuleName(rule authz.RuleTrace) string {
	if rule.Role.Namespace == "" {
		return rule.Role.Name
	}
	return rule.Role.Namespace + "/" + rule.Role.Name
}
