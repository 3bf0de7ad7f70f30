package validate

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	policy "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/internal/engine/expr"
	"proviso.dev/proviso/internal/engine/verbs"
)

// Limits of what a rule holds. The expression's is that of a condition, since it may become one.
const (
	maxExpression  = expr.MaxLength
	maxDescription = expr.MaxDescription
)

// writeVerbs are the verbs whose requests carry an object or options that a condition can be evaluated against.
var writeVerbs = sets.New(verbs.Writes()...).Insert("exec", "proxy")

// A resource or kind, with its group and subresource: pods, pods/exec, deployments.apps, Deployment.apps, *.apps,
// */scale, and "pods." for the core group alone.
var resourceKind = regexp.MustCompile(`^(\*|[A-Za-z0-9][A-Za-z0-9-]*)(\.([A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?)?)?(/(\*|[A-Za-z0-9][A-Za-z0-9-]*))?$`)

var apiVersion = regexp.MustCompile(`^v[1-9][0-9]*((alpha|beta)[1-9][0-9]*)?$`)

// Rule checks the form of one rule. master says whether the rule is in the master namespace.
func Rule(rule policy.PolicyRule, master bool, path *field.Path) field.ErrorList {
	errs := unrecognizedFields(rule, path)
	errs = append(errs, verbList(rule.Verbs, path.Child("verbs"))...)
	errs = append(errs, subjectOfRule(rule, master, path)...)
	errs = append(errs, conditionsOfRule(rule, path)...)
	errs = append(errs, enforcement(rule.Enforcement, path.Child("enforcement"))...)
	if n := len(rule.Description); n > maxDescription {
		errs = append(errs, field.TooLong(path.Child("description"), "", maxDescription))
	}
	return errs
}

// enforcement checks whether a rule decides or only shows what it would decide.
func enforcement(e policy.Enforcement, path *field.Path) field.ErrorList {
	if e.Known() {
		return nil
	}
	return field.ErrorList{field.NotSupported(path, e, policy.Enforcements())}
}

// Rules checks the form of the rules of a role, and whatever check adds.
func Rules(rules []policy.PolicyRule, master bool, path *field.Path, check func(policy.PolicyRule, *field.Path) field.ErrorList) field.ErrorList {
	var errs field.ErrorList
	for i, rule := range rules {
		bad := Rule(rule, master, path.Index(i))
		if len(bad) == 0 && check != nil {
			bad = check(rule, path.Index(i))
		}
		errs = append(errs, bad...)
	}
	return errs
}

var ruleFields = []string{"deny", "verbs", "apiGroups", "resourceKinds", "resourceNames", "nonResourceURLs", "where", "when",
	"apiVersion", "attributeRestrictions", "description", "enforcement"}

func unrecognizedFields(rule policy.PolicyRule, path *field.Path) (errs field.ErrorList) {
	for _, name := range slices.Sorted(maps.Keys(rule.Unrecognized)) {
		msg := "is not a field of a rule; a rule has " + strings.Join(ruleFields, ", ")
		if meant := closest(name, ruleFields); meant != "" {
			msg = fmt.Sprintf("is not a field of a rule; did you mean %s?", meant)
		}
		errs = append(errs, field.Invalid(path.Child(name), string(rule.Unrecognized[name].Raw), msg))
	}
	return errs
}

// closest returns the field that a misspelled name probably means: the same letters in another case, or one typing
// error.
func closest(name string, fields []string) string {
	for _, f := range fields {
		if strings.EqualFold(f, name) || strings.EqualFold(f, name+"s") {
			return f
		}
	}
	for _, f := range fields {
		if oneEdit(strings.ToLower(f), strings.ToLower(name)) {
			return f
		}
	}
	return ""
}

// oneEdit says whether one letter was added, left out, replaced, or swapped with its neighbour.
func oneEdit(a, b string) bool {
	if len(a) > len(b) {
		a, b = b, a
	}
	i := 0
	for i < len(a) && a[i] == b[i] {
		i++
	}
	switch len(b) - len(a) {
	case 0:
		return i+1 <= len(a) && a[i+1:] == b[i+1:] ||
			i+2 <= len(a) && a[i] == b[i+1] && a[i+1] == b[i] && a[i+2:] == b[i+2:]
	case 1:
		return a[i:] == b[i+1:]
	}
	return false
}

// verbPatterns are the verbs that stand for all with that prefix.
var verbPatterns = []string{"impersonate*", "granular:*", "reveal:*"}

func verbList(list []string, path *field.Path) (errs field.ErrorList) {
	if len(list) == 0 {
		return field.ErrorList{field.Required(path, `name at least one verb, or "*" for all`)}
	}
	for i, v := range list {
		name := strings.TrimPrefix(v, "-")
		switch {
		case name == "":
			errs = append(errs, field.Invalid(path.Index(i), v, "must name a verb"))
		case v == "-*":
			errs = append(errs, field.Invalid(path.Index(i), v, "takes everything out of the rule; leave the rule out instead"))
		case strings.ContainsAny(name, " \t\r\n,"):
			errs = append(errs, field.Invalid(path.Index(i), v, "must be one verb; give several as several entries"))
		case strings.HasSuffix(name, "*") && name != "*" && !slices.Contains(verbPatterns, name):
			errs = append(errs, field.Invalid(path.Index(i), v, "* stands for all verbs; the only verbs that can end with it are "+strings.Join(verbPatterns, " and ")))
		}
	}
	return errs
}

// subjectOfRule checks what the rule is about: resources or paths, never both and never neither.
func subjectOfRule(rule policy.PolicyRule, master bool, path *field.Path) (errs field.ErrorList) {
	paths := path.Child("nonResourceURLs")
	if len(rule.NonResourceURLs) > 0 {
		for _, other := range []struct {
			name  string
			given bool
		}{
			{"resourceKinds", len(rule.ResourceKinds) > 0},
			{"resourceNames", len(rule.ResourceNames) > 0},
			{"apiGroups", len(rule.APIGroups) > 0},
			{"where", rule.Where != ""},
			{"apiVersion", rule.APIVersion != ""},
			{"attributeRestrictions", rule.AttributeRestrictions != nil},
		} {
			if other.given {
				errs = append(errs, field.Forbidden(path.Child(other.name), "cannot be combined with nonResourceURLs, which have no object; use two rules"))
			}
		}
		if !master {
			errs = append(errs, field.Forbidden(paths, "have an effect in the master namespace only, since such requests have no namespace; put the rule into a role there"))
		}
		for i, url := range rule.NonResourceURLs {
			errs = append(errs, pathPattern(url, paths.Index(i))...)
		}
		return errs
	}
	if len(rule.ResourceKinds) == 0 {
		return append(errs, field.Required(path.Child("resourceKinds"), `name at least one resource or kind, "*" for all, or use nonResourceURLs`))
	}
	for i, k := range rule.ResourceKinds {
		errs = append(errs, kindPattern(k, path.Child("resourceKinds").Index(i))...)
	}
	errs = append(errs, groupsOfRule(rule.APIGroups, path.Child("apiGroups"))...)
	if rule.ResourceNames != nil && len(rule.ResourceNames) == 0 {
		errs = append(errs, field.Invalid(path.Child("resourceNames"), "[]", "is empty; leave it out to mean every name"))
	}
	for i, name := range rule.ResourceNames {
		if name == "" {
			errs = append(errs, field.Invalid(path.Child("resourceNames").Index(i), name, "must name an object"))
		}
	}
	if v := rule.APIVersion; v != "" && !apiVersion.MatchString(v) {
		errs = append(errs, field.Invalid(path.Child("apiVersion"), v, "must be a version without its group, such as v1 or v1beta2"))
	}
	return errs
}

func kindPattern(k string, path *field.Path) field.ErrorList {
	switch {
	case k == "-*":
		return field.ErrorList{field.Invalid(path, k, "takes everything out of the rule; leave the rule out instead")}
	case !resourceKind.MatchString(strings.TrimPrefix(k, "-")):
		return field.ErrorList{field.Invalid(path, k, `must be a resource or kind, such as pods, pods/exec, deployments.apps, *.apps or Pod, "*" for all, or one of these with a leading "-"`)}
	}
	return nil
}

func groupsOfRule(groups []string, path *field.Path) (errs field.ErrorList) {
	if groups != nil && len(groups) == 0 {
		errs = append(errs, field.Invalid(path, "[]", "is empty; leave it out to mean every group"))
	}
	for i, g := range groups {
		if g == "" || g == "*" {
			continue
		}
		if name, negated := strings.CutPrefix(g, "-"); negated {
			errs = append(errs, field.Invalid(path.Index(i), g, fmt.Sprintf("groups cannot be negated; add -*.%s to resourceKinds instead", name)))
		} else if msgs := validation.IsDNS1123Subdomain(g); len(msgs) > 0 {
			errs = append(errs, field.Invalid(path.Index(i), g, `must be an API group, such as apps, "" for the core group, or "*" for all`))
		}
	}
	return errs
}

// pathPattern checks a path outside the resource API.
func pathPattern(url string, path *field.Path) field.ErrorList {
	if url == "*" {
		return nil
	}
	if !strings.HasPrefix(url, "/") || strings.Contains(strings.TrimSuffix(url, "*"), "*") || strings.ContainsAny(url, " \t\r\n?#") {
		return field.ErrorList{field.Invalid(path, url, `must be a path that begins with "/", such as /metrics, with "*" at its end at most`)}
	}
	return nil
}

// conditionsOfRule checks where, when and the restrictions.
func conditionsOfRule(rule policy.PolicyRule, path *field.Path) (errs field.ErrorList) {
	for _, expr := range []struct{ name, text string }{{"where", rule.Where}, {"when", rule.When}} {
		if len(expr.text) > maxExpression {
			errs = append(errs, field.TooLong(path.Child(expr.name), "", maxExpression))
		} else if expr.text != "" && strings.TrimSpace(expr.text) == "" {
			errs = append(errs, field.Invalid(path.Child(expr.name), expr.text, "is blank; leave it out or write an expression"))
		}
	}
	conditional := rule.Where != "" || rule.When != ""
	if rule.AttributeRestrictions != nil {
		conditional = true
		errs = append(errs, restrictions(*rule.AttributeRestrictions, path.Child("attributeRestrictions"))...)
	}
	if !rule.Deny || !conditional || rule.Where == "" && rule.AttributeRestrictions == nil && !looksAtObject.MatchString(rule.When) {
		return errs
	}
	// A condition is evaluated against the object of a write. On a read there is none, so a conditional deny could only
	// be ignored there or deny everything. One that looks at nothing but the request is decided before.
	for i, v := range rule.Verbs {
		if !writeVerbs.Has(v) {
			errs = append(errs, field.Invalid(path.Child("verbs").Index(i), v,
				"a deny rule with a condition on the object cannot be enforced on reads; name write or connect verbs only, or look at nothing but the request: "+strings.Join(sets.List(writeVerbs), ", ")))
		}
	}
	return errs
}

// looksAtObject finds the variables of a when that are known only once there is an object.
var looksAtObject = regexp.MustCompile(`\b(object|oldObject|options|target|operation|namespaceObject|impersonatedRequest)\b`)

var restrictionNames = []string{"fieldsMutable", "labelsContain", "sameNodeRestriction"}

func restrictions(a policy.AttributeRestrictions, path *field.Path) (errs field.ErrorList) {
	for _, name := range slices.Sorted(maps.Keys(a.Unrecognized)) {
		value := string(a.Unrecognized[name].Raw)
		errs = append(errs, field.Invalid(path.Child(name), value, "is not a restriction; there are "+strings.Join(restrictionNames, ", ")))
	}
	if a.FieldsMutable == nil && a.LabelsContain == nil && !a.SameNodeRestriction && len(a.Unrecognized) == 0 {
		errs = append(errs, field.Required(path, "names no restriction; leave it out, or give "+strings.Join(restrictionNames, ", ")))
	}
	if a.FieldsMutable != nil && len(a.FieldsMutable) == 0 {
		errs = append(errs, field.Required(path.Child("fieldsMutable"), "name at least one field that may change"))
	}
	for i, f := range a.FieldsMutable {
		if strings.Trim(f, ". ") == "" {
			errs = append(errs, field.Invalid(path.Child("fieldsMutable").Index(i), f, "must be a field path, such as .metadata.labels"))
		}
	}
	if a.LabelsContain != nil && len(a.LabelsContain) == 0 {
		errs = append(errs, field.Required(path.Child("labelsContain"), "name at least one label"))
	}
	for i, l := range a.LabelsContain {
		errs = append(errs, labelRequirement(l, path.Child("labelsContain").Index(i))...)
	}
	return errs
}

// labelRequirement checks key or key=value.
func labelRequirement(l string, path *field.Path) (errs field.ErrorList) {
	key, value, _ := strings.Cut(l, "=")
	for _, msg := range validation.IsQualifiedName(key) {
		errs = append(errs, field.Invalid(path, l, "must be a label as key or key=value: "+msg))
	}
	for _, msg := range validation.IsValidLabelValue(value) {
		errs = append(errs, field.Invalid(path, l, "must be a label as key or key=value: "+msg))
	}
	return errs
}
