package validate

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"

	policy "proviso.dev/proviso/api/policy/v1alpha1"
)

func parse(t testing.TB, text string) policy.PolicyRule {
	t.Helper()
	var rule policy.PolicyRule
	if err := yaml.Unmarshal([]byte(text), &rule); err != nil {
		t.Fatal(err)
	}
	return rule
}

// PO-1, PO-2, PO-11: each wrong rule differs from its right twin in one thing.
func TestRule(t *testing.T) {
	long := strings.Repeat("x", maxExpression+1)
	for _, tc := range []struct{ name, wrong, want, right string }{
		{"no verbs", `{resourceKinds: [pods]}`, "rules[0].verbs: Required", `{verbs: [get], resourceKinds: [pods]}`},
		{"empty verb", `{verbs: [""], resourceKinds: [pods]}`, "rules[0].verbs[0]", `{verbs: ["*"], resourceKinds: [pods]}`},
		{"lone minus", `{verbs: ["-"], resourceKinds: [pods]}`, "rules[0].verbs[0]", `{verbs: ["-get"], resourceKinds: [pods]}`},
		{"minus star", `{verbs: [get, "-*"], resourceKinds: [pods]}`, "rules[0].verbs[1]", `{verbs: ["*", "-get"], resourceKinds: [pods]}`},
		{"two verbs in one", `{verbs: ["get, list"], resourceKinds: [pods]}`, "rules[0].verbs[0]", `{verbs: [get, list], resourceKinds: [pods]}`},
		{"granular verb", `{verbs: ["granular labels"], resourceKinds: [pods]}`, "rules[0].verbs[0]", `{verbs: ["granular:label(super.safe.com)"], resourceKinds: [pods]}`},
		{"no kinds", `{verbs: [get]}`, "rules[0].resourceKinds: Required", `{verbs: [get], resourceKinds: ["*"]}`},
		{"negations only", `{verbs: [get], resourceKinds: ["-*"]}`, "resourceKinds[0]", `{verbs: [get], resourceKinds: ["-roles", "-roleBindings"]}`},
		{"blank kind", `{verbs: [get], resourceKinds: [" pods"]}`, "resourceKinds[0]", `{verbs: [get], resourceKinds: [pods, pods/exec, deployments.apps, Pod, DeploymentConfig, deployments.apps/scale, "*/scale", "pods/*", "*.apps", "-*.policy.proviso.dev", "pods.", "*.apps/status"]}`},
		{"slashes", `{verbs: [get], resourceKinds: [a/b/c]}`, "resourceKinds[0]", `{verbs: [get], resourceKinds: [a/b]}`},
		{"two signs", `{verbs: [get], resourceKinds: [--pods]}`, "resourceKinds[0]", `{verbs: [get], resourceKinds: [-pods]}`},
		{"star in a name", `{verbs: [get], resourceKinds: ["po*"]}`, "resourceKinds[0]", `{verbs: [get], resourceKinds: ["*"]}`},
		{"star as a group", `{verbs: [get], resourceKinds: ["pods.*"]}`, "resourceKinds[0]", `{verbs: [get], resourceKinds: [pods]}`},
		{"empty kind", `{verbs: [get], resourceKinds: [""]}`, "resourceKinds[0]", `{verbs: [get], resourceKinds: [x]}`},
		{"negated group", `{verbs: [get], resourceKinds: [pods], apiGroups: ["-apps"]}`, "add -*.apps to resourceKinds", `{verbs: [get], resourceKinds: [pods], apiGroups: ["", apps, "*"]}`},
		{"no groups", `{verbs: [get], resourceKinds: [pods], apiGroups: []}`, "apiGroups", `{verbs: [get], resourceKinds: [pods]}`},
		{"no names", `{verbs: [get], resourceKinds: [pods], resourceNames: []}`, "resourceNames", `{verbs: [get], resourceKinds: [pods], resourceNames: [a]}`},
		{"empty name", `{verbs: [get], resourceKinds: [pods], resourceNames: [""]}`, "resourceNames[0]", `{verbs: [get], resourceKinds: [pods], resourceNames: [a]}`},
		{"version with group", `{verbs: [get], resourceKinds: [pods], apiVersion: apps/v1}`, "apiVersion", `{verbs: [get], resourceKinds: [pods], apiVersion: v1beta2}`},
		{"url and kind", `{verbs: [get], resourceKinds: [pods], nonResourceURLs: [/metrics]}`, "resourceKinds", `{verbs: [get], nonResourceURLs: [/metrics, "/debug/*", "*"]}`},
		{"url and where", `{verbs: [get], nonResourceURLs: [/metrics], where: "true"}`, "where", `{verbs: [get], nonResourceURLs: [/metrics], when: 'request.user == "a"'}`},
		{"url and restriction", `{verbs: [get], nonResourceURLs: [/metrics], attributeRestrictions: {labelsContain: [a]}}`, "attributeRestrictions", `{verbs: [get], nonResourceURLs: [/metrics]}`},
		{"relative url", `{verbs: [get], nonResourceURLs: [metrics]}`, "nonResourceURLs[0]", `{verbs: [get], nonResourceURLs: [/metrics]}`},
		{"star inside", `{verbs: [get], nonResourceURLs: ["/a*b"]}`, "nonResourceURLs[0]", `{verbs: [get], nonResourceURLs: ["/a*"]}`},
		{"blank where", `{verbs: [get], resourceKinds: [pods], where: " "}`, "where", `{verbs: [get], resourceKinds: [pods], where: "true"}`},
		{"long when", `{verbs: [get], resourceKinds: [pods], when: ` + long + `}`, "when", `{verbs: [get], resourceKinds: [pods], when: ` + long[1:] + `}`},
		{"long description", `{verbs: [get], resourceKinds: [pods], description: ` + long[:1025] + `}`, "description", `{verbs: [get], resourceKinds: [pods], description: ` + long[:1024] + `}`},
		{"misspelled deny", `{Deny: true, verbs: [delete], resourceKinds: [pods]}`, "did you mean deny?", `{deny: true, verbs: [delete], resourceKinds: [pods]}`},
		{"misspelled where", `{verbs: [delete], resourceKinds: [pods], wehre: "true"}`, "did you mean where?", `{verbs: [delete], resourceKinds: [pods], where: "true"}`},
		{"singular", `{verbs: [delete], resourceKinds: [pods], verb: [get]}`, "did you mean verbs?", `{verbs: [delete, get], resourceKinds: [pods]}`},
		{"other field", `{verbs: [delete], resourceKinds: [pods], until: tomorrow}`, "a rule has deny, verbs", `{verbs: [delete], resourceKinds: [pods]}`},
		{"unknown restriction", `{verbs: [update], resourceKinds: [pods], attributeRestrictions: {onlyOnSundays: true}}`, "attributeRestrictions.onlyOnSundays", `{verbs: [update], resourceKinds: [pods], attributeRestrictions: {sameNodeRestriction: true}}`},
		{"unknown kind of restriction", `{verbs: [update], resourceKinds: [pods], attributeRestrictions: {kind: sameRack}}`, "attributeRestrictions.kind", `{verbs: [update], resourceKinds: [pods], attributeRestrictions: {kind: sameMinionRestriction}}`},
		{"empty restrictions", `{verbs: [update], resourceKinds: [pods], attributeRestrictions: {}}`, "names no restriction", `{verbs: [update], resourceKinds: [pods], attributeRestrictions: {labelsContain: [a]}}`},
		{"restriction that is off", `{verbs: [update], resourceKinds: [pods], attributeRestrictions: {sameNodeRestriction: false}}`, "names no restriction", `{verbs: [update], resourceKinds: [pods], attributeRestrictions: {sameNodeRestriction: true}}`},
		{"no fields", `{verbs: [update], resourceKinds: [pods], attributeRestrictions: {fieldsMutable: []}}`, "fieldsMutable: Required", `{verbs: [update], resourceKinds: [pods], attributeRestrictions: {fieldsMutable: [labels]}}`},
		{"empty field", `{verbs: [update], resourceKinds: [pods], attributeRestrictions: {fieldsMutable: ["."]}}`, "fieldsMutable[0]", `{verbs: [update], resourceKinds: [pods], attributeRestrictions: {fieldsMutable: [.metadata.labels]}}`},
		{"no labels", `{verbs: [update], resourceKinds: [pods], attributeRestrictions: {labelsContain: []}}`, "labelsContain: Required", `{verbs: [update], resourceKinds: [pods], attributeRestrictions: {labelsContain: [a=b]}}`},
		{"bad label", `{verbs: [update], resourceKinds: [pods], attributeRestrictions: {labelsContain: ["a b"]}}`, "labelsContain[0]", `{verbs: [update], resourceKinds: [pods], attributeRestrictions: {labelsContain: [example.com/a]}}`},
		{"bad label value", `{verbs: [update], resourceKinds: [pods], attributeRestrictions: {labelsContain: ["a=b=c"]}}`, "labelsContain[0]", `{verbs: [update], resourceKinds: [pods], attributeRestrictions: {labelsContain: ["a="]}}`},
		// RD-3
		{"conditional deny of reads", `{deny: true, verbs: [get], resourceKinds: [pods], where: "true"}`, "verbs[0]", `{deny: true, verbs: [create, update, patch, delete, deletecollection, exec, proxy], resourceKinds: [pods], where: "true"}`},
		{"conditional deny of all", `{deny: true, verbs: ["*"], resourceKinds: [pods], when: "object.x == 1"}`, "verbs[0]", `{deny: true, verbs: ["*"], resourceKinds: [pods]}`},
		// TM-2: what looks at the request alone is decided before there is an object.
		{"conditional deny of reads by the request", `{deny: true, verbs: [get], resourceKinds: [pods], when: "request.time.getHours() > 17 && operation == 'x'"}`, "verbs[0]", `{deny: true, verbs: [get, list, "*"], resourceKinds: [pods], when: "request.time.getHours() > 17"}`},
		{"conditional deny of all but reads", `{deny: true, verbs: [delete, "-get"], resourceKinds: [pods], attributeRestrictions: {labelsContain: [a]}}`, "verbs[1]", `{verbs: [delete, "-get"], resourceKinds: [pods], attributeRestrictions: {labelsContain: [a]}}`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			path := field.NewPath("rules").Index(0)
			errs := Rule(parse(t, tc.wrong), true, path)
			if len(errs) == 0 || !strings.Contains(errs.ToAggregate().Error(), tc.want) {
				t.Errorf("wrong rule: %v, want %q", errs, tc.want)
			}
			if errs := Rule(parse(t, tc.right), true, path); len(errs) > 0 {
				t.Errorf("right rule: %v", errs)
			}
		})
	}
}

// PO-6: requests without a namespace are decided in the master namespace only.
func TestPathsBelongToTheMasterNamespace(t *testing.T) {
	rule := parse(t, `{verbs: [get], nonResourceURLs: [/metrics]}`)
	if errs := Rule(rule, false, field.NewPath("r")); len(errs) != 1 || !strings.Contains(errs[0].Error(), "master namespace") {
		t.Errorf("in another namespace: %v", errs)
	}
	if errs := Rule(rule, true, field.NewPath("r")); len(errs) != 0 {
		t.Errorf("in the master namespace: %v", errs)
	}
}

// The engine's check is asked for rules that are well-formed only, each with its own path.
func TestRulesAskTheEngine(t *testing.T) {
	var asked []string
	check := func(_ policy.PolicyRule, p *field.Path) field.ErrorList {
		asked = append(asked, p.String())
		return field.ErrorList{field.Invalid(p.Child("where"), "", "no")}
	}
	errs := Rules([]policy.PolicyRule{parse(t, `{verbs: [get]}`), parse(t, `{verbs: [get], resourceKinds: [pods]}`)}, false, field.NewPath("rules"), check)
	if strings.Join(asked, " ") != "rules[1]" || len(errs) != 2 {
		t.Errorf("asked %v, errors %v", asked, errs)
	}
}

func TestClosest(t *testing.T) {
	for name, want := range map[string]string{
		"verb": "verbs", "Verbs": "verbs", "vebrs": "verbs", "verbss": "verbs", "whre": "where", "wheer": "where", "wen": "when",
		"resourceKind": "resourceKinds", "resource": "", "": "", "x": "", "nonResourceURls": "nonResourceURLs", "apiGroup": "apiGroups",
	} {
		if got := closest(name, ruleFields); got != want {
			t.Errorf("closest(%q) = %q, want %q", name, got, want)
		}
	}
}

// FuzzRule: no input makes validation panic, and a rule that carries what nobody understands is never accepted.
func FuzzRule(f *testing.F) {
	for _, s := range []string{
		`{"verbs":["*","-deletecollection"],"resourceKinds":["*","-roles"]}`, `{"verbs":["-"],"resourceKinds":["/","."],"x":1}`,
		`{"verbs":["get"],"nonResourceURLs":["/a*","*"],"attributeRestrictions":{"labelsContain":["=","a=="]}}`,
		`{"deny":true,"verbs":["delete"],"attributeRestrictions":{"kind":"x","fieldsMutable":[""]}}`,
	} {
		f.Add(s, true)
	}
	f.Fuzz(func(t *testing.T, text string, master bool) {
		var rule policy.PolicyRule
		if err := yaml.Unmarshal([]byte(text), &rule); err != nil {
			return
		}
		errs := Rule(rule, master, field.NewPath("rule"))
		unknown := len(rule.Unrecognized) > 0 || (rule.AttributeRestrictions != nil && len(rule.AttributeRestrictions.Unrecognized) > 0)
		if unknown && len(errs) == 0 {
			t.Errorf("accepted %s", text)
		}
		if len(errs) == 0 && (len(rule.Verbs) == 0 || (len(rule.ResourceKinds) == 0) == (len(rule.NonResourceURLs) == 0)) {
			t.Errorf("accepted %s", text)
		}
	})
}
