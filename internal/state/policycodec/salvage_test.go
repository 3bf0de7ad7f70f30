package policycodec

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"

	audit "proviso.dev/proviso/api/auditregistration/v1alpha1"
	policy "proviso.dev/proviso/api/policy/v1alpha1"
)

func stored(t *testing.T, text string) runtime.Object {
	t.Helper()
	codec := StorageCodec()
	obj, err := runtime.Decode(codec, []byte(text))
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return obj
}

const (
	storedPolicy  = `"kind":"Policy","metadata":{"name":"default","namespace":"hammer","uid":"u"}`
	storedBinding = `"kind":"PolicyBinding","metadata":{"name":"hammer","namespace":"hammer","uid":"u"}`
	current       = `{"apiVersion":"policy.proviso.dev/v1alpha1",`
	newer         = `{"apiVersion":"policy.proviso.dev/v1beta7",`
)

// SV-8: what cannot be read is quarantined alone, rule by rule; what can be read next to it stays as it is.
func TestSalvageRules(t *testing.T) {
	const good = `{"verbs":["get"],"resourceKinds":["pods"]}`
	for _, tc := range []struct {
		name, text string
		deny       bool
		verbs      string
		// alsoGood reports whether the good rule beside it takes effect.
		alsoGood bool
		// alsoDenies reports whether a rule is added that denies everything.
		alsoDenies bool
	}{
		{"type of a field", current + storedPolicy + `,"roles":{"r":{"rules":[{"verbs":"get","resourceKinds":["pods"]},` + good + `]}}}`, false, "*", true, false},
		{"type of the condition", current + storedPolicy + `,"roles":{"r":{"rules":[{"verbs":["list"],"where":7},` + good + `]}}}`, false, "list", true, false},
		{"deny, extent unreadable", current + storedPolicy + `,"roles":{"r":{"rules":[{"deny":true,"verbs":{"not":"delete"}},` + good + `]}}}`, true, "*", true, false},
		{"deny, condition unreadable", current + storedPolicy + `,"roles":{"r":{"rules":[{"deny":true,"verbs":["delete"],"when":["a"]},` + good + `]}}}`, true, "delete", true, false},
		{"deny twice", current + storedPolicy + `,"roles":{"r":{"rules":[{"deny":true,"deny":false,"verbs":["delete"]},` + good + `]}}}`, true, "delete", true, false},
		{"a way to say deny that is not known", current + storedPolicy + `,"roles":{"r":{"rules":[{"deny":"always","verbs":["delete"]},` + good + `]}}}`, true, "delete", true, false},
		{"field of a role", current + storedPolicy + `,"roles":{"r":{"until":"noon","rules":[{"verbs":["get"]},` + good + `]}}}`, false, "get", false, true},
		{"field of the policy", current + storedPolicy + `,"until":"noon","roles":{"r":{"rules":[{"deny":true,"verbs":["get"]},` + good + `]}}}`, true, "get", false, false},
		{"newer version", newer + storedPolicy + `,"roles":{"r":{"rules":[{"deny":true,"verbs":["get"]},` + good + `]}}}`, true, "get", false, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p, ok := stored(t, tc.text).(*policy.Policy)
			if !ok || p.Namespace != "hammer" || p.Name != "default" || p.UID != "u" {
				t.Fatalf("read as %+v", p)
			}
			if Quarantined(p) == "" || len(p.Status.Conditions) == 0 || p.Status.Conditions[0].Status != "False" {
				t.Errorf("it does not say that it is quarantined: %+v", p)
			}
			rules := p.Roles["r"].Rules
			if want := map[bool]int{false: 2, true: 3}[tc.alsoDenies]; len(rules) != want {
				t.Fatalf("%d rules, want %d: %+v", len(rules), want, rules)
			}
			if bad := rules[0]; bad.Deny != tc.deny || strings.Join(bad.Verbs, ",") != tc.verbs || len(bad.Unrecognized) == 0 {
				t.Errorf("the bad rule is %+v", bad)
			}
			if effective := len(rules[1].Unrecognized) == 0; effective != tc.alsoGood {
				t.Errorf("the good rule takes effect: %v, want %v", effective, tc.alsoGood)
			}
			if errs := RefuseQuarantined(p); len(errs) == 0 {
				t.Error("it can be written, which would lose what was not understood")
			}
		})
	}
	// Twin: the same is left alone if its writer calls harmless what is not known.
	p := stored(t, current+storedPolicy+`,"ignorable":[".roles[].metadata.later",".roles[].until"],"roles":{"r":{"until":"noon","metadata":{"name":"r","later":"x"},"rules":[`+good+`]}}}`).(*policy.Policy)
	if Quarantined(p) != "" || len(p.Roles["r"].Rules[0].Unrecognized) != 0 {
		t.Errorf("quarantined: %+v", p)
	}
	if errs := RefuseQuarantined(p); len(errs) != 0 {
		t.Error(errs)
	}
}

// SV-8: a binding that is not understood is marked; the ones beside it are not. Unreadable subjects are everybody, for
// whom only the deny rules hold.
func TestSalvageBindings(t *testing.T) {
	for _, tc := range []struct {
		name, text   string
		marked, good bool
		groups       int
	}{
		{"unknown field", current + storedBinding + `,"roleBindings":{"b":{"roleName":"r","userNames":["a"],"expires":"noon"},"good":{"roleName":"r"}}}`, true, true, 0},
		{"unreadable subjects", current + storedBinding + `,"roleBindings":{"b":{"roleName":"r","userNames":{"all":true}},"good":{"roleName":"r"}}}`, true, true, 2},
		{"newer", newer + storedBinding + `,"roleBindings":{"b":{"roleName":"r","userNames":["a"]},"good":{"roleName":"r"}}}`, true, false, 0},
		{"fine", current + storedBinding + `,"roleBindings":{"b":{"roleName":"r","userNames":["a"]},"good":{"roleName":"r"}}}`, false, true, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := stored(t, tc.text).(*policy.PolicyBinding)
			bad, good := b.RoleBindings["b"], b.RoleBindings["good"]
			if marked := bad.Annotations[policy.AnnotationQuarantined] != ""; marked != tc.marked || bad.RoleName != "r" || len(bad.GroupNames) != tc.groups {
				t.Errorf("binding %+v", bad)
			}
			if marked := good.Annotations[policy.AnnotationQuarantined] != ""; marked == tc.good || good.RoleName != "r" {
				t.Errorf("the binding beside it: %+v", good)
			}
			if (Quarantined(b) != "") != tc.marked {
				t.Errorf("object %+v", b.Annotations)
			}
		})
	}
}

// SV-8: a protection that is not understood protects every value; a sink and a class stay readable.
func TestSalvageOthers(t *testing.T) {
	a := stored(t, newer+`"kind":"ClusterProtectedAttribute","metadata":{"name":"env"},"attributeKind":"Label","attributeName":"env","protectedValues":["prod"],"scope":"ObjectOnly","roleRef":{"kind":"ClusterRole","name":"x"}}`).(*policy.ClusterProtectedAttribute)
	if a.AttributeName != "env" || a.ProtectedValues != nil || a.Scope != policy.ScopeIncludeTemplates || a.RoleRef.Name != "x" || Quarantined(a) == "" {
		t.Errorf("%+v", a)
	}
	// A field permission keeps withholding what it can be read to withhold, without the condition, and everywhere if
	// need be.
	fp := stored(t, newer+`"kind":"FieldPermission","metadata":{"name":"f"},"spec":{"resources":{"all":true},"field":".data[x]","permission":"example.com/x","exclusive":"mostly","exclusiveWhen":"self == 'a'"}}`).(*policy.FieldPermission)
	if spec := fp.Spec; !spec.Exclusive || spec.ExclusiveWhen != "" || spec.Field != ".data[x]" || len(spec.Resources) != 1 || spec.Resources[0] != "*" || Quarantined(fp) == "" {
		t.Errorf("%+v", fp)
	}
	s := stored(t, `{"apiVersion":"auditregistration.k8s.io/v1alpha1","kind":"AuditSink","metadata":{"name":"s"},"spec":{"policy":{"level":"Metadata","sampling":0.1}}}`).(*audit.AuditSink)
	if Quarantined(s) == "" || s.Spec.Policy.Level != "Metadata" {
		t.Errorf("%+v", s)
	}
	s = stored(t, `{"apiVersion":"auditregistration.k8s.io/v1alpha1","kind":"AuditSink","metadata":{"name":"s"},"spec":{"policy":{"level":"Metadata"}}}`).(*audit.AuditSink)
	if Quarantined(s) != "" {
		t.Errorf("%+v", s)
	}
	// What does not tell its kind or name is an error, as before.
	for _, text := range []string{`{`, `{}`, `7`, `{"apiVersion":"policy.proviso.dev/v1alpha1","kind":"Policy"}x`, newer + `"kind":"Policy"}`, newer + `"kind":"Novelty","metadata":{"name":"a"}}`} {
		if obj, err := runtime.Decode(StorageCodec(), []byte(text)); err == nil {
			t.Errorf("%s was read as %+v", text, obj)
		}
	}
}

// SV-7, SV-8: whatever is stored, reading it does not panic, and what is quarantined has no rule that could grant
// anything unless this version understands it.
func FuzzSalvage(f *testing.F) {
	f.Add(current + storedPolicy + `,"roles":{"r":{"rules":[{"verbs":"get"}]}}}`)
	f.Add(newer + storedBinding + `,"roleBindings":{"b":null,"c":{"userNames":3}}}`)
	f.Add(`{"apiVersion":"auditregistration.k8s.io/v2","kind":"AuditClass","metadata":{"name":"x"},"spec":[]}`)
	codec := StorageCodec()
	f.Fuzz(func(t *testing.T, text string) {
		obj, err := runtime.Decode(codec, []byte(text))
		if err != nil {
			return
		}
		again, err := runtime.Decode(codec, []byte(text))
		if err != nil || Quarantined(obj) != Quarantined(again) {
			t.Fatalf("read twice, two answers: %v", err)
		}
		if p, ok := obj.(*policy.Policy); ok && Quarantined(p) != "" && strings.Contains(text, "v1beta7") && !strings.Contains(text, "v1alpha1") {
			for _, role := range p.Roles {
				for _, rule := range role.Rules {
					if len(rule.Unrecognized) == 0 {
						t.Fatalf("a rule of another version takes effect: %+v", rule)
					}
				}
			}
		}
	})
}

// PO-25: a protection with a field that is not known protects no less, wherever the field is.
func TestUnknownFieldsOfProtections(t *testing.T) {
	for _, tc := range []struct {
		name, spec            string
		exclusive, unreadable bool
		resources             string
	}{
		{"another name for exclusive", `"resources":["pods"],"field":".spec.x","permission":"a.b/c","withheld":true`, true, false, "pods"},
		{"it says that it is not", `"resources":["pods"],"field":".spec.x","permission":"a.b/c","exclusive":false,"note":1`, false, false, "pods"},
		{"another name for resources", `"kinds":["pods"],"field":".spec.x","permission":"a.b/c","exclusive":true`, true, false, "*"},
		{"another name for field", `"resources":["pods"],"path":".spec.x","permission":"a.b/c","exclusive":true`, true, true, "pods"},
		{"one level down", `"rule":{"resources":["pods"],"field":".spec.x","permission":"a.b/c","exclusive":true}`, true, true, "*"},
		{"in the parameter", `"resources":["pods"],"field":".spec.x","permission":"a.b/c","exclusive":true,"exclusiveWhen":"self == 1","enforcement":"Shadow","parameter":{"from":"key","except":"a"}`, true, false, "pods"},
	} {
		fp := stored(t, current+`"kind":"FieldPermission","metadata":{"name":"f"},"spec":{`+tc.spec+`}}`).(*policy.FieldPermission)
		if Quarantined(fp) == "" || fp.Spec.Exclusive != tc.exclusive || fp.Spec.ExclusiveWhen != "" || fp.Shadowed() || strings.Join(fp.Spec.Resources, ",") != tc.resources || (Unreadable(fp) != "") != tc.unreadable {
			t.Errorf("%s: %+v %v", tc.name, fp.Spec, fp.Annotations)
		}
	}
	for name, tc := range map[string]struct{ fields, key string }{
		"another field":           {`"attributeKind":"Label","attributeName":"env","protectedValues":["a"],"scope":"ObjectOnly","enforcement":"Shadow","note":1,"roleRef":{"kind":"ClusterRole","name":"x"}`, "env"},
		"in the role":             {`"attributeKind":"Label","attributeName":"env","protectedValues":["a"],"roleRef":{"kind":"ClusterRole","name":"x","note":1}`, "env"},
		"another name for values": {`"attributeKind":"Label","attributeName":"env","values":["a"],"roleRef":{"kind":"ClusterRole","name":"x"}`, "env"},
		"inside a spec":           {`"spec":{"attributeKind":"Label","attributeName":"env"}`, ""},
	} {
		a := stored(t, current+`"kind":"ClusterProtectedAttribute","metadata":{"name":"a"},`+tc.fields+`}`).(*policy.ClusterProtectedAttribute)
		if Quarantined(a) == "" || a.AttributeName != tc.key || a.ProtectedValues != nil || a.Scope != policy.ScopeIncludeTemplates || a.Shadowed() {
			t.Errorf("%s: %+v", name, a)
		}
	}
}
