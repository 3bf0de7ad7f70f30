package expr

import (
	"fmt"

	"github.com/google/cel-go/cel"
	"k8s.io/apimachinery/pkg/util/version"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	apiservercel "k8s.io/apiserver/pkg/cel"
	"k8s.io/apiserver/pkg/cel/environment"
)

// MaxDescription is the largest description of a condition in bytes (CA-1).
const MaxDescription = 1024

// Kind is the dialect of an expression.
type Kind uint8

const (
	// When is the raw form: it sees request, object, oldObject, options,
	// target, operation, namespaceObject and impersonatedRequest.
	When Kind = iota
	// Where is about `resource`, one version of the object at a time or the target of a connection, and also sees
	// request.
	Where
	// Exclusive is the exclusiveWhen of a field permission: it sees key, self
	// and oldSelf.
	Exclusive
	// Parameter is the parameter of a field permission, a text: it sees key,
	// value and element.
	Parameter

	kinds = iota
)

// String returns the name of the field that holds such expressions.
func (k Kind) String() string {
	switch k {
	case Where:
		return "where"
	case Exclusive:
		return "exclusiveWhen"
	case Parameter:
		return "parameter"
	}
	return "when"
}

// ofField reports whether this is a kind for field permissions, whose expressions are evaluated in one step.
func (k Kind) ofField() bool { return k == Exclusive || k == Parameter }

// Config is the configuration of a Compiler. The zero value is right for a
// server.
type Config struct {
	// Version selects Kubernetes' CEL libraries for new expressions. Nil means
	// the version that the server is compatible with.
	Version *version.Version
	// CallLimit is the runtime cost limit of one evaluation; 0 means
	// Kubernetes' limit per call.
	CallLimit uint64
	// EstimateLimit is the limit of the estimated cost of an expression when
	// it is written; 0 means Kubernetes' budget per policy.
	EstimateLimit uint64
}

// Compiler turns source into programs. It is immutable and safe for
// concurrent use; making one is expensive (milliseconds), so make one per
// process.
type Compiler struct {
	callLimit     uint64
	estimateLimit uint64
	base          *environment.EnvSet        // no variables yet
	envs          [kinds]*environment.EnvSet // by Kind
	planners      [kinds]planners            // by Kind
	plain         *cel.Env                   // parses without expanding macros, for residual text
}

// New returns a Compiler.
func New(cfg Config) (*Compiler, error) {
	v := cfg.Version
	if v == nil {
		v = environment.DefaultCompatibilityVersion()
	}
	if v == nil || len(v.Components()) < 2 {
		return nil, fmt.Errorf("CEL version %v is not valid: it needs a major and a minor part", v)
	}
	c := &Compiler{callLimit: cfg.CallLimit, estimateLimit: cfg.EstimateLimit}
	if c.callLimit == 0 {
		c.callLimit = celconfig.PerCallLimit
	}
	if c.estimateLimit == 0 {
		c.estimateLimit = celconfig.RuntimeCELCostBudget
	}
	c.base = environment.MustBaseEnvSet(v)
	for _, kind := range []Kind{When, Where, Exclusive, Parameter} {
		set, err := c.base.Extend(declarations(kind, nil))
		if err != nil {
			return nil, fmt.Errorf("CEL environment for %s: %w", kind, err)
		}
		c.envs[kind] = set
		if c.planners[kind], err = newPlanners(set, c.callLimit); err != nil {
			return nil, fmt.Errorf("CEL planner for %s: %w", kind, err)
		}
	}
	plain, err := c.envs[When].StoredExpressionsEnv().Extend(cel.ClearMacros())
	if err != nil {
		return nil, fmt.Errorf("CEL environment without macros: %w", err)
	}
	c.plain = plain
	return c, nil
}

// planners plan the new and the stored expressions of a kind.
type planners struct {
	new, stored *planner
}

func newPlanners(set *environment.EnvSet, limit uint64) (ps planners, err error) {
	if ps.new, err = newPlanner(set.NewExpressionsEnv(), limit); err != nil {
		return ps, err
	}
	ps.stored, err = newPlanner(set.StoredExpressionsEnv(), limit)
	return ps, err
}

// declarations declares the variables of a kind of expression. A nil type
// leaves the object unchecked.
func declarations(kind Kind, obj *Type) environment.VersionedOptions {
	if kind.ofField() {
		return fieldDeclarations(kind)
	}
	req := requestType()
	opts := environment.VersionedOptions{
		// The variables exist in all our versions.
		IntroducedVersion: version.MajorMinor(1, 0),
		EnvOptions:        []cel.EnvOption{cel.Variable(varRequest, req.CelType())},
		DeclTypes:         []*apiservercel.DeclType{req},
	}
	objType := cel.DynType
	if obj != nil {
		objType = obj.decl.CelType()
		if obj.decl.IsObject() {
			opts.DeclTypes = append(opts.DeclTypes, obj.decl)
		}
	}
	if kind == Where {
		opts.EnvOptions = append(opts.EnvOptions, cel.Variable(varResource, objType))
		return opts
	}
	ns, imp := namespaceType(), impersonatedType()
	opts.DeclTypes = append(opts.DeclTypes, ns, imp)
	opts.EnvOptions = append(opts.EnvOptions,
		cel.Variable(varObject, objType),
		cel.Variable(varOldObject, objType),
		cel.Variable(varOptions, cel.DynType),
		cel.Variable(varTarget, cel.DynType),
		cel.Variable(varOperation, cel.StringType),
		cel.Variable(varNamespace, ns.CelType()),
		cel.Variable(varImpersonated, imp.CelType()),
	)
	return opts
}
