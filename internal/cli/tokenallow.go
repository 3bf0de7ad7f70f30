package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	accessv1alpha1 "proviso.dev/proviso/api/access/v1alpha1"
	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/internal/cli/verbflag"
)

// tokenRules are the flags that say what a token can do.
type tokenRules struct {
	allow       []string
	file        string
	noDiscovery bool
	description string
}

func (r *tokenRules) addFlags(cmd *cobra.Command) {
	fs := cmd.Flags()
	fs.StringArrayVar(&r.allow, "allow", nil, `What the token can do: 'VERBS KINDS [-n NAMESPACES] [--name NAMES]', such as 'get,list pods,deployments.apps -n web', or 'get /metrics'; may be repeated.`)
	fs.StringVar(&r.file, "rules", "", "File with a list of rules in YAML, or an object with the field rules, for conditions and denies; - is standard input.")
	fs.BoolVar(&r.noDiscovery, "no-discovery", false, "Leave out what clients ask every server: its API, its version, and what they may do.")
	fs.StringVar(&r.description, "description", "", "What the token is for, in at most 256 bytes. Refusals and audit events show it.")
}

// build is the rules of the flags. Nothing is allowed that is not said.
func (r *tokenRules) build(in io.Reader, errOut io.Writer) ([]accessv1alpha1.TokenRule, error) {
	if len(r.allow) == 0 && r.file == "" {
		return nil, errors.New("say what the token can do: --allow 'get,list pods -n web', or --rules FILE")
	}
	var rules []accessv1alpha1.TokenRule
	for _, text := range r.allow {
		rule, err := parseAllow(text)
		if err != nil {
			return nil, fmt.Errorf("--allow %q: %w", text, err)
		}
		rules = append(rules, rule)
	}
	if r.file != "" {
		more, err := readRules(r.file, in)
		if err != nil {
			return nil, fmt.Errorf("--rules: %w", err)
		}
		rules = append(rules, more...)
	}
	for _, rule := range rules {
		verbflag.Warn(errOut, rule.Verbs...)
	}
	if !r.noDiscovery {
		rules = append(rules, discoveryRules()...)
	}
	return rules, nil
}

// parseAllow reads VERBS KINDS [-n NAMESPACES] [--name NAMES].
func parseAllow(text string) (rule accessv1alpha1.TokenRule, err error) {
	words := strings.Fields(text)
	if len(words) < 2 || strings.HasPrefix(words[0], "--") || words[0] == "-n" || strings.HasPrefix(words[1], "--") {
		return rule, errors.New("want VERBS KINDS [-n NAMESPACES] [--name NAMES]")
	}
	rule.Verbs = splitWords(words[0])
	for _, kind := range splitWords(words[1]) {
		if strings.HasPrefix(kind, "/") {
			rule.NonResourceURLs = append(rule.NonResourceURLs, kind)
		} else {
			rule.ResourceKinds = append(rule.ResourceKinds, kind)
		}
	}
	for rest := words[2:]; len(rest) > 0; rest = rest[2:] {
		if len(rest) == 1 {
			return rule, fmt.Errorf("%s needs a value", rest[0])
		}
		switch rest[0] {
		case "-n", "--namespace":
			rule.Namespaces = append(rule.Namespaces, splitWords(rest[1])...)
		case "--name":
			rule.ResourceNames = append(rule.ResourceNames, splitWords(rest[1])...)
		default:
			return rule, fmt.Errorf("%s: want -n NAMESPACES or --name NAMES; conditions go into a file of --rules", rest[0])
		}
	}
	return rule, nil
}

func splitWords(list string) []string {
	return strings.FieldsFunc(list, func(r rune) bool { return r == ',' })
}

// readRules reads a list of rules, or an object that has one.
func readRules(name string, in io.Reader) ([]accessv1alpha1.TokenRule, error) {
	var text []byte
	var err error
	if name == "-" {
		text, err = io.ReadAll(io.LimitReader(in, 1<<20))
	} else {
		text, err = os.ReadFile(name)
	}
	if err != nil {
		return nil, err
	}
	var rules []accessv1alpha1.TokenRule
	if err := yaml.UnmarshalStrict(text, &rules); err == nil {
		return rules, unknownFields(rules)
	}
	var object struct {
		Rules []accessv1alpha1.TokenRule `json:"rules"`
	}
	if err := yaml.UnmarshalStrict(text, &object); err != nil {
		return nil, fmt.Errorf("%s: want a list of rules: %w", name, err)
	}
	return object.Rules, unknownFields(object.Rules)
}

func unknownFields(rules []accessv1alpha1.TokenRule) error {
	for i := range rules {
		if unknown := rules[i].UnknownFields(); len(unknown) > 0 {
			return fmt.Errorf("rule %d: unknown field %s", i, unknown[0])
		}
	}
	return nil
}

// discoveryRules allow the discovery requests that kubectl and client libraries make first.
func discoveryRules() []accessv1alpha1.TokenRule {
	return []accessv1alpha1.TokenRule{
		{PolicyRule: policyv1alpha1.PolicyRule{Verbs: []string{"get"}, NonResourceURLs: []string{"/api", "/api/*", "/apis", "/apis/*", "/openapi", "/openapi/*", "/version", "/version/*"}}},
		{PolicyRule: policyv1alpha1.PolicyRule{Verbs: []string{"create"}, ResourceKinds: []string{
			"selfsubjectaccessreviews.authorization.k8s.io", "selfsubjectrulesreviews.authorization.k8s.io", "selfsubjectreviews.authentication.k8s.io", "subjectaccessreviews.authorization.proviso.dev"}}},
	}
}
