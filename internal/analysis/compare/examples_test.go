package compare

import (
	"cmp"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"

	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/internal/engine/expr"
)

type exampleRule struct {
	at string
	policyv1alpha1.PolicyRule
}

var (
	fence   = regexp.MustCompile("(?ms)^```(?:yaml|sh)\n(.*?)^```")
	heredoc = regexp.MustCompile(`(?ms)<<-?\s*'?YAML'?\n(.*?)^YAML`)
)

// exampleRules are all rules with a condition in the examples and in the documentation.
func exampleRules(t *testing.T) (rules []exampleRule) {
	t.Helper()
	take := func(at, text string) {
		for _, doc := range strings.Split(text, "\n---") {
			var role struct {
				Kind  string                      `json:"kind"`
				Rules []policyv1alpha1.PolicyRule `json:"rules"`
			}
			if yaml.Unmarshal([]byte(doc), &role) != nil || role.Kind != "Role" {
				continue
			}
			for _, rule := range role.Rules {
				_, wrong := cache().Compiler().Compile(cmp.Or(rule.Where, "true"), expr.Options{Kind: expr.Where})
				_, too := cache().Compiler().Compile(cmp.Or(rule.When, "true"), expr.Options{Kind: expr.When})
				if len(wrong)+len(too) > 0 {
					continue // the guide shows what the server says to it
				}
				if rule.Where != "" || rule.When != "" {
					rules = append(rules, exampleRule{at, rule})
				}
			}
		}
	}
	for _, root := range []string{"../../../examples", "../../../docs", "../../../README.md"} {
		err := filepath.WalkDir(root, func(path string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".yaml") && !strings.HasSuffix(path, ".md") {
				return err
			}
			if strings.HasPrefix(path, "../../../docs/reference/") {
				return nil // what lint finds: rules as nobody should write them
			}
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			if strings.HasSuffix(path, ".yaml") {
				take(path, string(text))
				return nil
			}
			for _, block := range fence.FindAllStringSubmatch(string(text), -1) {
				take(path, block[1])
				for _, doc := range heredoc.FindAllStringSubmatch(block[1], -1) {
					take(path, doc[1])
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return rules
}

// shapeOf is the shape of a built-in resource, as a rule names it.
func shapeOf(name string) *Shape {
	resource, group, _ := strings.Cut(strings.ToLower(name), ".")
	resource, _, _ = strings.Cut(resource, "/")
	for gvk, typ := range scheme.Scheme.AllKnownTypes() {
		plural, singular := meta.UnsafeGuessKindToResource(gvk)
		if gvk.Group == group && (plural.Resource == resource || singular.Resource == resource) {
			return FromGo(typ)
		}
	}
	return Unknown()
}

// TR-3: the examples of this repository are decided: against themselves, against always and never, and against each
// other.
func TestExamplesAreDecided(t *testing.T) {
	rules := exampleRules(t)
	if len(rules) < 14 {
		t.Fatalf("found %d rules only", len(rules))
	}
	c := comparer()
	compiled := func(r exampleRule) Access {
		var parts []expr.Condition
		for kind, source := range map[expr.Kind]string{expr.Where: r.Where, expr.When: r.When} {
			if source == "" {
				continue
			}
			p, issues := cache().Compiler().Compile(source, expr.Options{Kind: kind})
			if len(issues) > 0 {
				t.Fatalf("%s: %v", r.at, issues)
			}
			parts = append(parts, p)
		}
		if r.Deny {
			return Access{Allow: []expr.Condition{nil}, Deny: []expr.Condition{expr.All(parts...)}}
		}
		return Access{Allow: []expr.Condition{expr.All(parts...)}}
	}
	operations := map[string]string{"create": "CREATE", "update": "UPDATE", "patch": "UPDATE", "delete": "DELETE", "*": "UPDATE", "get": "CONNECT"}
	decided := 0
	for _, one := range rules {
		t.Run(strings.TrimPrefix(one.at, "../../../"), func(t *testing.T) {
			for _, kind := range one.ResourceKinds {
				for _, verb := range one.Verbs {
					operation := operations[verb]
					if operation == "" {
						operation = "CONNECT"
					}
					u := Of(operation, shapeOf(kind))
					u.Impersonated = strings.Contains(one.When, "impersonatedRequest")
					if operation == "CONNECT" && one.Where != "" {
						continue // reads have no object
					}
					own := compiled(one)
					for name, other := range map[string]Access{"itself": own, "always": {Allow: []expr.Condition{nil}}, "never": {}} {
						got := c.Compare(t.Context(), other, own, u)
						if got.Relation == Unclear || name == "itself" && got.Relation != Equivalent {
							t.Errorf("%s %s against %s: %s (%s)", verb, kind, name, got.Relation, got.Why)
						}
						decided++
					}
					for _, two := range rules {
						if got := c.Compare(t.Context(), compiled(two), own, u); got.Relation == Unclear {
							t.Errorf("%s %s against %s%s of %s: %s", verb, kind, two.Where, two.When, two.at, got.Why)
						}
						decided++
					}
				}
			}
		})
	}
	t.Logf("%d rules, %d questions", len(rules), decided)
}
