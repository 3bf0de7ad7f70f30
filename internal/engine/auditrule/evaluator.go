package auditrule

import (
	"slices"

	auditinternal "k8s.io/apiserver/pkg/apis/audit"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/authorization/authorizer"
)

// Evaluator decides how to audit a request such that one event can serve every interested sink: at the highest level
// that the static policy or a sink wants, omitting only stages and managed fields that all of them omit. Routing
// removes what a sink does not want.
type Evaluator struct {
	// Static is the evaluator of --audit-policy-file; nil if there is none. Requests that no sink wants are audited
	// exactly as it says.
	Static audit.PolicyRuleEvaluator
	// Index returns the current index, never nil.
	Index func() *Index
	// Needs knows requests that need an event whatever sinks and policies want; nil if there are none.
	Needs Needs
}

// Needs knows requests that need an event, at Metadata at least, whatever sinks and policies want.
type Needs interface {
	Watched(authorizer.Attributes) bool
}

var _ audit.PolicyRuleEvaluator = &Evaluator{}

var sinkOmits = []auditinternal.Stage{auditinternal.StageRequestReceived}

// SinkWantsStage reports whether sinks get events of the stage.
func SinkWantsStage(stage auditinternal.Stage) bool {
	switch stage {
	case auditinternal.StageResponseStarted, auditinternal.StageResponseComplete, auditinternal.StagePanic:
		return true
	default:
		return false
	}
}

// EvaluatePolicyRule implements audit.PolicyRuleEvaluator. It does not allocate.
func (e *Evaluator) EvaluatePolicyRule(attrs authorizer.Attributes) audit.RequestAuditConfig {
	sinks := e.Index().Max(attrs)
	if sinks == None && e.Needs != nil && e.Needs.Watched(attrs) {
		sinks = Metadata
	}
	static := audit.RequestAuditConfig{Level: auditinternal.LevelNone}
	if e.Static != nil {
		static = e.Static.EvaluatePolicyRule(attrs)
	}
	if sinks == None {
		return static
	}
	dynamic := audit.RequestAuditConfig{Level: sinks.Audit(), OmitStages: sinkOmits[:len(sinkOmits):len(sinkOmits)]}
	staticLevel, _ := LevelOf(static.Level)
	if staticLevel == None {
		return dynamic
	}
	union := audit.RequestAuditConfig{
		Level: max(sinks, staticLevel).Audit(),
		// Sinks get managed fields; but below Request they see no object, and the static policy's wish costs them
		// nothing.
		OmitManagedFields: static.OmitManagedFields && sinks < Request,
	}
	if slices.Contains(static.OmitStages, auditinternal.StageRequestReceived) {
		union.OmitStages = dynamic.OmitStages
	}
	return union
}
