package policyreview

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	authz "proviso.dev/proviso/api/authorization/v1alpha1"
	"proviso.dev/proviso/internal/engine/expr"
	"proviso.dev/proviso/internal/engine/ruleset"
	"proviso.dev/proviso/internal/engine/whocan"
	"proviso.dev/proviso/internal/request/authorize"
)

// token says where an answer continues (EX-3). It holds only what the answer has shown, so it needs no signature: a
// user who forges one only sees what they could ask for anyway.
type token struct {
	question string
	Last     ruleset.Subject
}

// written is a token as it is sent.
type written struct {
	Version  int    `json:"v"`
	Question string `json:"q"`
	Group    bool   `json:"g,omitempty"`
	Name     string `json:"n"`
}

// String is what status.continue has.
func (t token) String() string {
	data, err := json.Marshal(written{Version: 1, Question: t.question, Group: t.Last.Group, Name: t.Last.Name})
	if err != nil {
		return ""
	}
	return base64.RawURLEncoding.EncodeToString(data)
}

// maxToken is longer than any name that a binding can have.
const maxToken = 8 << 10

// pageOf is the part of the answer that is asked for. A continue token from another question is refused: it would
// silently leave out subjects.
func pageOf(namespace string, spec authz.ResourceAccessReviewSpec) (whocan.Page, error) {
	page := whocan.Page{Limit: int(min(spec.Limit, 1<<30))}
	if part := strings.ToLower(spec.NameContains); part != "" {
		page.Named = func(name string) bool { return strings.Contains(strings.ToLower(name), part) }
	}
	if spec.Continue == "" {
		return page, nil
	}
	var w written
	data, err := base64.RawURLEncoding.Strict().DecodeString(spec.Continue[:min(len(spec.Continue), maxToken)])
	if err != nil || json.Unmarshal(data, &w) != nil || w.Version != 1 || w.Name == "" {
		return page, apierrors.NewBadRequest("spec.continue is invalid: use status.continue of the previous answer, or omit it to start over")
	}
	if w.Question != hash(namespace, spec) {
		return page, apierrors.NewBadRequest("spec.continue belongs to another question: ask the same question, or leave it out to begin again")
	}
	page.After = &ruleset.Subject{Group: w.Group, Name: w.Name}
	return page, nil
}

// hash tells questions apart. The size of a part does not belong to the question.
func hash(namespace string, spec authz.ResourceAccessReviewSpec) string {
	spec.Limit, spec.Continue, spec.IncludeRules = 0, "", false
	data, err := json.Marshal(spec)
	if err != nil {
		return ""
	}
	sum := sha256.Sum256(append(data, namespace...))
	return base64.RawURLEncoding.EncodeToString(sum[:12])
}

// rulesOf lists the rules behind an answer, as far as the caller may see them.
func (r *Reviewer) rulesOf(ctx context.Context, status authz.ResourceAccessReviewStatus, attrs authorizer.AttributesRecord, verbs []string, sees *sight) (all []authz.SubjectRules) {
	var who []ruleset.Subject
	for _, name := range status.UserNames {
		who = append(who, ruleset.Subject{Name: name})
	}
	for _, name := range status.GroupNames {
		who = append(who, ruleset.Subject{Group: true, Name: name})
	}
	for _, c := range status.Conditional {
		who = append(who, ruleset.Subject{Group: c.GroupName != "", Name: c.UserName + c.GroupName})
	}
	for _, b := range status.BlockedBy {
		who = append(who, ruleset.Subject{Group: b.GroupName != "", Name: b.UserName + b.GroupName})
	}
	slices.SortFunc(who, ruleset.Subject.Compare)
	for _, s := range slices.Compact(who) {
		entry := authz.SubjectRules{}
		entry.UserName, entry.GroupName = names(s)
		for _, verb := range verbs {
			asked := attrs
			asked.User, asked.Verb = userOf(s), verb
			for _, rule := range rulesBehind(ctx, r.Indexed, asked) {
				if len(entry.Rules) >= maxRules {
					entry.MoreRules++
					continue
				}
				if rule.Known == expr.False {
					continue // it does not apply to this subject, whatever the object is
				}
				if rule.Known == expr.True {
					rule.Condition = nil
				}
				t := traced{rules: []authorize.Applied{rule}, values: []authz.ConditionTrace{{Value: authz.ConditionUnknown}}}
				if rule.Condition != nil {
					t.values[0].Condition = condition(rule.Condition, effectOf(rule.Hit))
				}
				shown := t.rule(0)
				sees.withholdRule(&shown)
				entry.Rules = append(entry.Rules, shown)
			}
		}
		all = append(all, entry)
	}
	return all
}
