package policychange

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"proviso.dev/proviso/internal/state/snapshot"
)

// NI-8, TR-18: whatever decides about access is compared, or it is said that it changes. A new kind of policy has to be
// one of these, or to say here why it decides nothing.
func TestPlanKnowsEveryKind(t *testing.T) {
	const compared, isSaid, decidesNothing = "compared", "said", "decides nothing"
	known := map[string]string{
		"roles": compared, "clusterroles": compared, "rolebindings": compared, "clusterrolebindings": compared, "policies": compared, "policybindings": compared,
		"fieldpermissions": isSaid, "protectedattributes": isSaid, "clusterprotectedattributes": isSaid, "accessrules": isSaid,
		"namespaces": isSaid, "accessrequests": isSaid, "tokenrevocations": isSaid, "customresourcedefinitions": isSaid,
		"auditsinks":          isSaid, // if an access rule waits for them
		"namespaceauditsinks": decidesNothing, "auditclasses": decidesNothing,
	}
	for _, kind := range snapshot.Kinds() {
		if known[kind.Resource] == "" {
			t.Errorf("plan does not know %s", kind.Resource)
		}
		delete(known, kind.Resource)
	}
	if len(known) > 0 {
		t.Errorf("no such kinds: %v", known)
	}
}

const (
	accessRequest = `apiVersion: access.proviso.dev/v1alpha1
kind: AccessRequest
metadata: {name: one, namespace: prod, creationTimestamp: "2996-01-01T00:00:00Z"}
spec: {ruleRef: {name: on-call}, durationSeconds: 600, requester: {username: bob}}`
	tokensRevoked = `apiVersion: access.proviso.dev/v1alpha1
kind: TokenRevocation
metadata: {name: lost}
spec: {userNames: [bob]}`
	auditSink = `apiVersion: auditregistration.k8s.io/v1alpha1
kind: AuditSink
metadata: {name: watch}
spec: {policy: {level: Metadata}, webhook: {clientConfig: {url: "https://watch.example.com"}}}`
	webhook = `apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: checks}
webhooks: []`
	apiService = `apiVersion: apiregistration.k8s.io/v1
kind: APIService
metadata: {name: v1.example.com}
spec: {group: example.com, version: v1, groupPriorityMinimum: 100, versionPriority: 100}`
)

// NI-8, TR-18: what is not compared is said if it decides about access, and only then.
func TestPlanSaysWhatItDoesNotCompare(t *testing.T) {
	waits := strings.Replace(fmt.Sprintf(accessRule, "namespaces: [prod]"), "approvals: {count: 1, subjects: {groupNames: [leads]}}", "breakGlass: true\n  auditSinks: [watch]", 1)
	ended := strings.Replace(accessRequest, "2996", "1996", 1)
	changed := strings.NewReplacer("600", "900", "[bob]", "[eve]", "webhooks: []", "webhooks: null", "example.com, version: v1", "example.com, version: v1, insecureSkipTLSVerify: true")
	for name, test := range map[string]struct{ there, object, isNew, changes, isGone string }{
		"an access request": {"", accessRequest, "AccessRequest prod/one is new: bob may get what it asks for by AccessRule on-call",
			"AccessRequest prod/one changes: what bob gets by AccessRule on-call may change", "AccessRequest prod/one ends: bob may lose what it grants by AccessRule on-call"},
		"an access request, as people write it": {"", strings.NewReplacer(`, creationTimestamp: "2996-01-01T00:00:00Z"`, "", ", requester: {username: bob}", "").Replace(accessRequest), "AccessRequest prod/one is new: the user who creates it may get what it asks for by AccessRule on-call",
			"AccessRequest prod/one changes: what the user who creates it gets by AccessRule on-call may change", "AccessRequest prod/one ends: the user who creates it may lose what it grants by AccessRule on-call"},
		"an access request that has ended": {"", ended, "", "", ""},
		"a token revocation": {"", tokensRevoked, "TokenRevocation lost is new: the narrowed tokens that it revokes no longer count",
			"TokenRevocation lost changes: which narrowed tokens count may change", "TokenRevocation lost is gone: the narrowed tokens that it revoked count again until they expire"},
		"a sink that nothing waits for": {fmt.Sprintf(accessRule, "namespaces: [prod]"), auditSink, "", "", ""},
		"a sink that a rule waits for": {waits, auditSink, "AuditSink watch is new: requests of bob by AccessRule on-call wait for it, and may become active",
			"", "AuditSink watch is gone: requests of bob by AccessRule on-call wait for it, and may be denied"},
		"a webhook": {"", webhook, "ValidatingWebhookConfiguration checks decides which writes admission refuses or changes, which is not compared",
			"ValidatingWebhookConfiguration checks decides which writes admission refuses or changes, which is not compared", "ValidatingWebhookConfiguration checks decides which writes admission refuses or changes, which is not compared"},
		"an API service": {"", apiService, "APIService v1.example.com decides which server answers requests, and whether conditions hold there, which is not compared",
			"APIService v1.example.com decides which server answers requests, and whether conditions hold there, which is not compared", "APIService v1.example.com decides which server answers requests, and whether conditions hold there, which is not compared"},
		"what decides nothing": {"", all("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: prod}\ndata: {a: \"600\"}",
			"apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: a, namespace: prod}\nspec: {size: 600}",
			"apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: a, namespace: prod}",
			"apiVersion: auditregistration.k8s.io/v1alpha1\nkind: AuditClass\nmetadata: {name: reads}\nspec: {rules: [{verbs: [get]}]}",
			"apiVersion: policy.proviso.dev/v1alpha1\nkind: NamespaceAuditSink\nmetadata: {name: a, namespace: prod}\nspec: {}"), "", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			there := role("r", "", "")
			if test.there != "" {
				there = all(there, test.there)
			}
			for _, step := range []struct {
				name, before, change string
				remove               bool
				want                 string
			}{
				{"new", there, test.object, false, test.isNew},
				{"the same", all(there, test.object), test.object, false, ""},
				{"changed", all(there, test.object), changed.Replace(test.object), false, test.changes},
				{"gone", all(there, test.object), test.object, true, test.isGone},
			} {
				report := planOf(t, step.before, step.change, step.remove)
				if got := strings.Join(report.Unknown, "\n"); got != step.want || len(report.Changes) > 0 {
					t.Errorf("%s: %q, want %q", step.name, got, step.want)
				}
			}
		})
	}
}

// NI-8, TR-18: rights to what is not served are void, and conditions look at what the schema says.
func TestPlanOfDefinitions(t *testing.T) {
	definition := func(more, schema string) string {
		return `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.com}
spec:
  group: example.com
  names: {kind: Widget, listKind: WidgetList, plural: widgets, singular: widget` + more + `}
  scope: Namespaced
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {` + schema + `}}}}}}]`
	}
	first, wider := definition("", "size: {type: string}"), definition("", "size: {type: string}, colour: {type: string}")
	const rules = `{verbs: [get], apiGroups: [example.com], resources: [widgets]}`
	const lists = `kind: APIResourceList
apiVersion: v1
groupVersion: example.com/v1
resources: [{name: widgets, kind: Widget, namespaced: true, verbs: [get]}, {name: widgets/status, kind: Widget, namespaced: true, verbs: [get]}]`
	const controller = rbac + `kind: ClusterRoleBinding
metadata: {name: gc, labels: {kubernetes.io/bootstrapping: rbac-defaults}}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: r}
subjects: [{kind: ServiceAccount, namespace: kube-system, name: generic-garbage-collector}]`
	has := all(role("r", "", rules), binding)
	conditional := policyRole("master", `{verbs: [create], resourceKinds: [widgets.example.com], where: resource.spec.size == "small"}`, "master")
	guarded := `apiVersion: policy.proviso.dev/v1alpha1
kind: FieldPermission
metadata: {name: size}
spec: {resources: [widgets.example.com], field: .spec.size, permission: example.com/size, exclusive: true}`
	const isServed, isNot = "widgets.example.com is served now, so the rights of bob to it count", "widgets.example.com is no longer served, so the rights of bob to it are void"
	for name, test := range map[string]struct {
		before, change string
		remove         bool
		want           string
	}{
		"new, with rights":            {has, first, false, isServed},
		"new, without rights":         {role("r", "", ""), first, false, ""},
		"new, for Kubernetes itself":  {all(role("r", "", rules), controller), first, false, ""},
		"gone, with rights":           {all(has, first), first, true, isNot},
		"gone, in a dump":             {all(has, first, lists), first, true, isNot},
		"gone, without rights":        {all(role("r", "", ""), first), first, true, ""},
		"a schema, and a condition":   {all(conditional, first), wider, false, `CustomResourceDefinition widgets.example.com changes, and Role "master/dev" rule 0 has a condition on such objects: what vera may do may change`},
		"a schema, and an exclusive":  {all(guarded, first), wider, false, `CustomResourceDefinition widgets.example.com changes, and FieldPermission "size" guards .spec.size of it: what that includes may change`},
		"a schema, and rights only":   {all(has, first), wider, false, ""},
		"a condition on another kind": {all(strings.Replace(conditional, "widgets.example.com", "pods", 1), first), wider, false, ""},
		"a short name":                {all(conditional, first), definition(", shortNames: [w]", "size: {type: string}"), false, ""},
		"the same":                    {all(conditional, guarded, has, first), first, false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			report := planOf(t, test.before, test.change, test.remove)
			if got := strings.Join(report.Unknown, "\n"); got != test.want {
				t.Errorf("%q, want %q", got, test.want)
			}
		})
	}
	// A rule of Policy means something else as soon as its kinds are served: that is among the rights, and said once.
	report := planOf(t, policyRole("master", `{verbs: [get], resourceKinds: [Widget]}`, "master"), first, false)
	if !slices.ContainsFunc(report.Changes, func(c Change) bool { return c.Subject.User == "vera" && c.Resource == "widgets" }) || len(report.Unknown) > 0 {
		t.Errorf("%+v", report)
	}
}
