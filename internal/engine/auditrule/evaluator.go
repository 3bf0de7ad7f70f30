package auditrule

import (
	"slices"

	auditinternal "k8s.io/apiserver/pkg/apis/audit"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/authorization/authorizer"
)

// Evaluator answers how a request is to be audited so that everybody who is interested can be served from one event: at
// the highest level that the static policy or a sink wants, leaving out only stages and managed fields that all of them
// leave out. What each of them does not want is taken away again when the event is routed.
type Evaluator struct {
	// Static is the evaluator of --audit-policy-file; nil if there is none. Requests that no sink wants are audited
	// exactly as it says.
	Static audit.PolicyRuleEvaluator
	// Index returns the current index, never nil.
	Index func() *Index
	// Needed reports whether a request has an event at least at Metadata, whatever anybody wants; nil needs none.
	Needed func(authorizer.Attributes) bool
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

// EvaluatePolicyRule implements audit.PolicyRuleEvaluator. It allocates nothing of its own.
func (e *Evaluator) EvaluatePolicyRule(attrs authorizer.Attributes) audit.RequestAuditConfig {
	sinks := e.Index().Max(attrs)
	if sinks == None && e.Needed != nil && e.Needed(attrs) {
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
