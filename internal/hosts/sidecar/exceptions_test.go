package sidecar

import (
	"os"
	"strings"
	"testing"

	"k8s.io/apiserver/pkg/authorization/authorizer"
)

// SC-9: the page lists every exception, and what happens instead is what happens.
func TestExceptionsAreListed(t *testing.T) {
	text, err := os.ReadFile("../../../docs/how-to/stock-clusters.md")
	if err != nil {
		t.Fatal(err)
	}
	_, page, found := strings.Cut(string(text), "## What cannot be had on a stock server")
	if !found {
		t.Fatal("the page has no list")
	}
	page, _, _ = strings.Cut(page, "\n## ")
	w := newWorld(t, policy)
	silent := func(a authorizer.AttributesRecord) func() bool {
		return func() bool {
			got, err := w.decider.Access(t.Context(), "c", a)
			return err == nil && got.Decision == authorizer.DecisionNoOpinion
		}
	}
	small, big := map[string]string{"size": "small"}, map[string]string{"size": "big"}
	refused := func(a authorizer.AttributesRecord, kind string, old, new map[string]string) func() bool {
		return func() bool { return w.decider.Admit(t.Context(), admitted(a, kind, old, new)) != nil }
	}
	withoutVersion := asked("anna", "create", "configmaps", "team", "")
	withoutVersion.APIVersion = ""
	for row, shown := range map[string]func() bool{
		"each decides by the policy of its moment": nil,
		"it is checked as a create": func() bool {
			return !refused(asked("anna", "create", "configmaps", "team", "a"), "ConfigMap", nil, small)()
		},
		"an update has to be allowed as a patch":    refused(asked("anna", "patch", "configmaps", "team", "a"), "ConfigMap", big, big),
		"connections need `create`":                 nil,
		"conditions on `nodes` and on proxies":      silent(asked("anna", "create", "nodes", "", "")),
		"a `get` under one is refused":              silent(asked("rob", "get", "configmaps", "team", "a")),
		"resources of other API servers":            nil,
		"for the identities of `init --exempt`":     silent(asked("system:kube-scheduler", "create", "configmaps", "team", "")),
		"RBAC's own escalation check":               silent(asked("anna", "escalate", "configmaps", "team", "a")),
		"they can tell that an object exists":       nil,
		"`can-i --list`":                            nil,
		"ask `authorization.proviso.dev`":           nil, // TestReviewsWithConditionalAnswersAreRefused
		"a question without a version":              silent(withoutVersion),
		"use a FieldPermission":                     nil,
		"they get what the audit policy":            nil, // TestCheckLooksAtTheAuditPolicy
		"the sidecar may not read it":               nil,
		"custom resources with conversion webhooks": nil,
		"the pod behind a Binding":                  nil,
		"`system:masters` and exempt callers can":   nil, // the static manifest says so: TestInit
		"it is a 403":                               nil, // TestAccessOverApproximatesAsLittleAsPossible
	} {
		if !strings.Contains(page, row) {
			t.Errorf("the page does not list: %s", row)
		}
		if shown != nil && !shown() {
			t.Errorf("it is not so: %s", row)
		}
	}
}
