package law

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"k8s.io/apimachinery/pkg/util/version"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/cel/environment"

	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/test/refmodel"
)

// answer is what a condition gives.
type answer int

const (
	no answer = iota
	yes
	// fails is an error of the condition; match is one that counts as holding, as in the where of a deny.
	fails
	match
)

func toAnswer(b bool) answer {
	if b {
		return yes
	}
	return no
}

// verdict is what one step with everything known decides, and whether failures alone decided a deny.
type verdict struct {
	decision authorizer.Decision
	failed   bool
}

// set is CA-2, word for word. failOpen is the failure mode.
func set(denies, noOpinions, allows []answer, failOpen bool) verdict {
	switch {
	case slices.Contains(denies, yes), slices.Contains(denies, match):
		return verdict{decision: authorizer.DecisionDeny, failed: !slices.Contains(denies, yes)}
	case slices.Contains(denies, fails) && failOpen:
		return verdict{decision: authorizer.DecisionNoOpinion}
	case slices.Contains(denies, fails):
		return verdict{decision: authorizer.DecisionDeny, failed: true}
	case slices.Contains(noOpinions, yes), slices.Contains(noOpinions, fails):
		return verdict{decision: authorizer.DecisionNoOpinion}
	case slices.Contains(allows, yes):
		return verdict{decision: authorizer.DecisionAllow}
	}
	return verdict{decision: authorizer.DecisionNoOpinion}
}

// reference decides in one step, the slow and obvious way. It shares nothing with the code under test but cel-go.
type reference struct {
	env      *cel.Env
	programs map[string]cel.Program
}

func newReference() (*reference, error) {
	var vars []cel.EnvOption
	for _, name := range []string{"request", "object", "oldObject", "options", "operation", "target", "namespaceObject", "impersonatedRequest", "resource"} {
		vars = append(vars, cel.Variable(name, cel.DynType))
	}
	env, err := environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()).Extend(
		environment.VersionedOptions{IntroducedVersion: version.MajorMinor(1, 0), EnvOptions: vars})
	if err != nil {
		return nil, err
	}
	return &reference{env: env.StoredExpressionsEnv(), programs: map[string]cel.Program{}}, nil
}

func (ref *reference) evaluate(source string, vars map[string]any) answer {
	program, ok := ref.programs[source]
	if !ok {
		ast, issues := ref.env.Compile(source)
		if issues != nil && issues.Err() != nil {
			panic(fmt.Sprintf("%s: %v", source, issues.Err()))
		}
		var err error
		if program, err = ref.env.Program(ast, cel.CostLimit(celconfig.PerCallLimit)); err != nil {
			panic(fmt.Sprintf("%s: %v", source, err))
		}
		if len(ref.programs) > 4096 {
			clear(ref.programs)
		}
		ref.programs[source] = program
	}
	out, _, err := program.Eval(vars)
	if b, ok := out.(types.Bool); err == nil && ok {
		return toAnswer(bool(b))
	}
	return fails
}

// chain asks every link, in order, with everything known: the first opinion decides.
func (ref *reference) chain(w *world, found refmodel.Hits, r *refmodel.Request, f *facts) verdict {
	for _, link := range w.order {
		v := verdict{decision: authorizer.DecisionNoOpinion}
		switch link {
		case "policy-master":
			v = ref.rules(w, r, f, found.Master)
		case "policy-namespace":
			hits := found.Local
			if len(found.Cluster) > 0 { // PO-7: a namespace deny yields to a cluster-wide grant
				hits = slices.DeleteFunc(slices.Clone(hits), func(h refmodel.Hit) bool { return h.Deny })
			}
			v = ref.rules(w, r, f, hits)
		case "rbac":
			if len(found.Cluster)+len(found.RBAC) > 0 {
				v.decision = authorizer.DecisionAllow
			}
		default:
			v = ref.other(w.others[link], r, f)
		}
		if v.decision != authorizer.DecisionNoOpinion {
			return v
		}
	}
	return verdict{decision: authorizer.DecisionNoOpinion}
}

// rules decides a tier of Policy.
func (ref *reference) rules(w *world, r *refmodel.Request, f *facts, hits []refmodel.Hit) verdict {
	var denies, allows []answer
	for _, h := range hits {
		a := yes
		if h.Answer != refmodel.Yes {
			a = ref.rule(w.rule(h), r, f, h)
		}
		if h.Deny {
			denies = append(denies, a)
		} else {
			allows = append(allows, a)
		}
	}
	return set(denies, nil, allows, false)
}

// byRequestName finds conditions on the name in the request. One that says none is about the object's (PO-20).
var byRequestName = regexp.MustCompile(`request\.name\b`)

// rule is everything that a rule demands, from left to right.
func (ref *reference) rule(rule *policyv1alpha1.PolicyRule, r *refmodel.Request, f *facts, found refmodel.Hit) answer {
	byName := found.Answer == refmodel.IfName
	if !strings.Contains(rule.When, refmodel.Broken) && r.Name == "" && byRequestName.MatchString(rule.Where+" "+rule.When) {
		object, ok := f.name()
		if !ok {
			return fails
		}
		named := *r
		named.Name, r = object, &named
	}
	var demands []func() answer
	if byName {
		demands = append(demands, func() answer { return named(rule.ResourceNames, f) })
	}
	if a := rule.AttributeRestrictions; a != nil {
		if a.FieldsMutable != nil {
			demands = append(demands, func() answer { return onlyChanged(a.FieldsMutable, rule.APIVersion, f) })
		}
		if a.LabelsContain != nil {
			demands = append(demands, func() answer { return stored(a.LabelsContain, f) })
		}
		if a.SameNodeRestriction {
			demands = append(demands, func() answer { return ownNode(r, f, rule.Deny) })
		}
	}
	if rule.Where != "" && !strings.Contains(rule.When, refmodel.Broken) {
		demands = append(demands, func() answer { return ref.where(rule, r, f, found) })
	}
	if rule.When != "" && !strings.Contains(rule.When, refmodel.Broken) {
		demands = append(demands, func() answer { return ref.when(rule.When, rule.APIVersion, r, f) })
	}
	if strings.Contains(rule.When, refmodel.Broken) && byName { // a quarantined deny keeps its names
		demands = demands[:1]
	}
	result := yes
	for _, demand := range demands {
		switch a := demand(); a {
		case yes:
		case match:
			result = match
		default:
			return a
		}
	}
	return result
}

// when evaluates the raw form.
func (ref *reference) when(source, apiVersion string, r *refmodel.Request, f *facts) answer {
	return ref.evaluate(source, map[string]any{
		"request": requestVariable(r), "object": f.in(apiVersion, f.object), "oldObject": f.in(apiVersion, f.old), "options": orNull(f.options),
		"target": f.goesTo(apiVersion), "operation": string(f.operation), "namespaceObject": namespaceVariable(f.namespace), "impersonatedRequest": types.NullValue,
	})
}

// where must hold for every version of the object in an allow, and for any in a deny, where failing is matching. On a
// connection that the rule names, the target is the only one (CA-26).
func (ref *reference) where(rule *policyv1alpha1.PolicyRule, r *refmodel.Request, f *facts, found refmodel.Hit) answer {
	var each []answer
	if found.About == refmodel.Target {
		each = append(each, ref.evaluate(rule.Where, map[string]any{"request": requestVariable(r), "resource": f.goesTo(rule.APIVersion)}))
	}
	for _, version := range []map[string]any{f.old, f.object} {
		if version != nil && f.ownKind {
			each = append(each, ref.evaluate(rule.Where, map[string]any{"request": requestVariable(r), "resource": f.in(rule.APIVersion, version)}))
		}
	}
	switch {
	case !rule.Deny && (len(each) == 0 || slices.Contains(each, no)):
		return no
	case !rule.Deny && slices.Contains(each, fails):
		return fails
	case !rule.Deny:
		return yes
	case len(each) == 0: // nothing that it could be about: a deny applies unless it is false without looking
		each = []answer{ref.evaluate(rule.Where, map[string]any{"request": requestVariable(r), "resource": types.NewErr("none")})}
	}
	for _, a := range each { // the first that applies
		switch a {
		case yes:
			return yes
		case fails:
			return match
		}
	}
	return no
}
