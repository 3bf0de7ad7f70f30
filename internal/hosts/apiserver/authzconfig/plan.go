package authzconfig

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	authzconfig "k8s.io/apiserver/pkg/apis/apiserver"
	authorizationcel "k8s.io/apiserver/pkg/authorization/cel"
	kubeauthorizer "k8s.io/kubernetes/pkg/kubeapiserver/authorizer"
	"k8s.io/kubernetes/pkg/kubeapiserver/authorizer/modes"
	"k8s.io/kubernetes/pkg/kubeapiserver/options"
	"sigs.k8s.io/yaml"

	"proviso.dev/proviso/internal/features"
	"proviso.dev/proviso/internal/features/conditions"
	"proviso.dev/proviso/internal/features/policies"
)

// modePolicy is the authorizer type that only we have. It is split off before upstream sees modes or files.
const modePolicy = policies.TypePolicy

// Plan is the configured authorizer chain, our own types included. A stock server has none: nil.
type Plan struct {
	authorizers []authzconfig.AuthorizerConfiguration
	// conditionsContext is, by webhook name, the kubeconfig context of its conditions endpoint.
	conditionsContext map[string]string
	// file is watched for changes; empty when the chain comes from flags.
	file string
	data []byte
	// assumed is set for a drop-in without configured authorizers.
	assumed bool
}

// Flags is what the command line says about authorizers.
type Flags struct {
	*options.BuiltInAuthorizationOptions
	// ModesGiven is set if --authorization-mode is.
	ModesGiven bool
	// DropIn is set for a server that stands in for kube-apiserver.
	DropIn bool
	// Systems are the enabled ones. Without any, the server is stock.
	Systems features.Lineup
}

func (f Flags) stock() bool { return len(f.Systems.Gates()) == 0 }

// Read takes the chain out of the flags and leaves there what upstream can complete and validate. It returns nil when
// the server is stock: then upstream builds its own chain.
func Read(f Flags) (*Plan, error) {
	a := f.BuiltInAuthorizationOptions
	if file := a.AuthorizationConfigurationFile; file != "" {
		if a.AreLegacyFlagsSet != nil && a.AreLegacyFlagsSet() {
			return nil, errors.New("--authorization-config can not be specified when --authorization-mode or --authorization-webhook-* flags are defined")
		}
		if f.stock() {
			return nil, nil
		}
		plan, err := readFile(file, f.Systems)
		if err != nil {
			return nil, err
		}
		// Upstream never builds a chain from these; they keep its completion from falling back to AlwaysAllow.
		a.AuthorizationConfigurationFile, a.Modes = "", []string{modes.ModeRBAC}
		return plan, nil
	}

	assumed := !f.ModesGiven && !(f.stock() && f.DropIn)
	if assumed {
		a.Modes = []string{modes.ModeNode, modes.ModeRBAC}
	}
	if f.stock() {
		if slices.Contains(a.Modes, modePolicy) {
			return nil, fmt.Errorf("--authorization-mode=%s: mode Policy needs one of the feature gates of Proviso", strings.Join(a.Modes, ","))
		}
		return nil, nil
	}
	order := slices.Clone(a.Modes)
	a.Modes = slices.DeleteFunc(slices.Clone(a.Modes), func(m string) bool { return m == modePolicy })
	upstream, err := a.ToAuthorizationConfig(nil)
	if err != nil {
		return nil, err
	}
	if len(a.Modes) == 0 {
		a.Modes = []string{modes.ModeRBAC}
	}
	plan := &Plan{assumed: assumed && f.DropIn}
	rest := upstream.AuthorizationConfiguration.Authorizers
	for _, mode := range order {
		if mode == modePolicy {
			plan.authorizers = append(plan.authorizers, policyEntry())
			continue
		}
		plan.authorizers, rest = append(plan.authorizers, rest[0]), rest[1:]
	}
	return plan, plan.complete(f.Systems)
}

// File is the file that the chain comes from and follows; empty when it comes from flags.
func (p *Plan) File() string { return p.file }

// ModesAssumed is the notice about a drop-in that is stricter than the server it replaces; empty if there is none.
func (p *Plan) ModesAssumed() string {
	if p == nil || !p.assumed {
		return ""
	}
	return "--authorization-mode is not given: Node,RBAC is used, behind Policy. kube-apiserver would allow everything (AlwaysAllow). Give --authorization-mode or --authorization-config to decide yourself"
}

// Has reports whether the chain has an authorizer of a type.
func (p *Plan) Has(mode string) bool {
	return slices.ContainsFunc(p.authorizers, func(a authzconfig.AuthorizerConfiguration) bool { return string(a.Type) == mode })
}

// ahead lists the authorizers before Policy that can allow. No deny rule of Policy can deny what they allow.
func (p *Plan) ahead() (names []string) {
	for _, a := range p.authorizers {
		switch string(a.Type) {
		case modePolicy:
			return names
		case modes.ModeAlwaysDeny:
		default:
			names = append(names, a.Name)
		}
	}
	return nil // Policy is off
}

// DeniesVoided is the notice about them; empty if there are none.
func (p *Plan) DeniesVoided() string {
	if p == nil {
		return ""
	}
	names := p.ahead()
	if len(names) == 0 {
		return ""
	}
	return fmt.Sprintf("WARNING: Policy does not come first: what %s allows is allowed, whatever the deny rules of Policy say. List Policy before it (--authorization-mode, --authorization-config)",
		strings.Join(names, ", "))
}

func policyEntry() authzconfig.AuthorizerConfiguration {
	return authzconfig.AuthorizerConfiguration{Type: modePolicy, Name: kubeauthorizer.GetNameForAuthorizerMode(modePolicy)}
}

// complete puts Policy first if it is not listed, and checks that it is listed once and enabled.
func (p *Plan) complete(systems features.Lineup) error {
	listed := 0
	for _, a := range p.authorizers {
		if a.Type == modePolicy {
			listed++
		}
	}
	switch {
	case listed > 1:
		return errors.New("authorizer type Policy is listed more than once")
	case listed == 1 && !systems.Has(policies.Gate):
		return errors.New("authorizer type Policy needs the feature gate PolicyAuthorization")
	case len(p.conditionsContext) > 0 && !systems.Has(conditions.Gate):
		return errors.New("conditionsEndpointKubeConfigContext needs the feature gate ConditionalAuthorization")
	case listed == 0 && systems.Has(policies.Gate):
		p.authorizers = append([]authzconfig.AuthorizerConfiguration{policyEntry()}, p.authorizers...)
	}
	return nil
}

func readFile(path string, systems features.Lineup) (*Plan, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("--authorization-config: %w", err)
	}
	plan, err := parseFile(data, systems)
	if err != nil {
		return nil, fmt.Errorf("--authorization-config %s: %w", path, err)
	}
	plan.file = path
	return plan, nil
}

// parseFile splits our keys off, has upstream check the rest strictly, and joins both again in the file's order.
func parseFile(data []byte, systems features.Lineup) (*Plan, error) {
	var file map[string]any
	// Strictly, as upstream does: a key given twice would be lost before it sees the file.
	if err := yaml.UnmarshalStrict(data, &file); err != nil {
		return nil, err
	}
	if file == nil {
		return nil, errors.New("the file is empty")
	}
	plan := &Plan{conditionsContext: map[string]string{}, data: data}
	entries, _ := file["authorizers"].([]any)
	var upstream []any
	policyAt := -1
	for i, e := range entries {
		entry, ok := e.(map[string]any)
		if !ok || entry["type"] != modePolicy {
			if err := plan.liftConditionsContext(i, entry); err != nil {
				return nil, err
			}
			upstream = append(upstream, e)
			continue
		}
		if policyAt >= 0 {
			return nil, fmt.Errorf("authorizers[%d]: type Policy is listed more than once", i)
		}
		if want := policyEntry().Name; entry["name"] != want {
			return nil, fmt.Errorf("authorizers[%d].name: must be %q for type Policy", i, want)
		}
		if len(entry) > 2 {
			return nil, fmt.Errorf("authorizers[%d]: type Policy takes no settings", i)
		}
		policyAt = i
	}
	if len(upstream) > 0 || policyAt < 0 {
		file["authorizers"] = upstream
		rest, err := yaml.Marshal(file)
		if err != nil {
			return nil, err
		}
		config, err := kubeauthorizer.LoadAndValidateData(rest, authorizationcel.NewDefaultCompiler(), nil)
		if err != nil {
			return nil, err
		}
		plan.authorizers = config.Authorizers
	}
	if policyAt >= 0 {
		plan.authorizers = slices.Insert(plan.authorizers, policyAt, policyEntry())
	}
	return plan, plan.complete(systems)
}

func (p *Plan) liftConditionsContext(i int, entry map[string]any) error {
	const key = "conditionsEndpointKubeConfigContext"
	webhook, _ := entry["webhook"].(map[string]any)
	value, present := webhook[key]
	if !present {
		return nil
	}
	context, ok := value.(string)
	if !ok || context == "" {
		return fmt.Errorf("authorizers[%d].webhook.%s: must be the name of a context of the webhook's kubeconfig", i, key)
	}
	name, _ := entry["name"].(string)
	p.conditionsContext[name] = context
	delete(webhook, key)
	return nil
}
