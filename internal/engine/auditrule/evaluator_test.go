package auditrule

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	auditinternal "k8s.io/apiserver/pkg/apis/audit"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"proviso.dev/proviso/api/auditregistration/v1alpha1"
)

// fixedConfig is a static policy that answers the same for every request.
type fixedConfig audit.RequestAuditConfig

func (f fixedConfig) EvaluatePolicyRule(authorizer.Attributes) audit.RequestAuditConfig {
	return audit.RequestAuditConfig(f)
}

func indexAt(levels ...v1alpha1.Level) func() *Index {
	var sources []Source
	for _, l := range levels {
		sources = append(sources, Source{Receives: true, Policy: v1alpha1.Policy{Level: l}})
	}
	ix := Compile(sources, nil)
	return func() *Index { return ix }
}

// DA-6, DA-7: the event is made at the highest level anybody asks for, and leaves out only what all leave out. What
// only the static policy wants is exactly as it says.
func TestUnion(t *testing.T) {
	all := []auditinternal.Stage{auditinternal.StageRequestReceived, auditinternal.StageResponseStarted, auditinternal.StageResponseComplete, auditinternal.StagePanic}
	received := all[:1]
	for _, tc := range []struct {
		name   string
		static audit.PolicyRuleEvaluator
		sinks  []v1alpha1.Level
		want   audit.RequestAuditConfig
	}{
		{"nobody", nil, nil, audit.RequestAuditConfig{Level: auditinternal.LevelNone}},
		{"sinks that are off", nil, []v1alpha1.Level{"None", "None"}, audit.RequestAuditConfig{Level: auditinternal.LevelNone}},
		{"static alone", fixedConfig{Level: auditinternal.LevelRequest, OmitStages: all, OmitManagedFields: true}, []v1alpha1.Level{"None"},
			audit.RequestAuditConfig{Level: auditinternal.LevelRequest, OmitStages: all, OmitManagedFields: true}},
		{"static that is off, alone", fixedConfig{Level: auditinternal.LevelNone, OmitStages: all, OmitManagedFields: true}, nil,
			audit.RequestAuditConfig{Level: auditinternal.LevelNone, OmitStages: all, OmitManagedFields: true}},
		{"sinks alone", nil, []v1alpha1.Level{"Metadata", "Request", "None"}, audit.RequestAuditConfig{Level: auditinternal.LevelRequest, OmitStages: received}},
		{"static is off", fixedConfig{Level: auditinternal.LevelNone, OmitManagedFields: true}, []v1alpha1.Level{"Metadata"},
			audit.RequestAuditConfig{Level: auditinternal.LevelMetadata, OmitStages: received}},
		{"static is higher", fixedConfig{Level: auditinternal.LevelRequestResponse, OmitStages: all[:2]}, []v1alpha1.Level{"Metadata"},
			audit.RequestAuditConfig{Level: auditinternal.LevelRequestResponse, OmitStages: received}},
		{"static is lower and omits nothing", fixedConfig{Level: auditinternal.LevelMetadata}, []v1alpha1.Level{"Request"},
			audit.RequestAuditConfig{Level: auditinternal.LevelRequest}},
		{"static omits what sinks get", fixedConfig{Level: auditinternal.LevelMetadata, OmitStages: all[1:]}, []v1alpha1.Level{"Request"},
			audit.RequestAuditConfig{Level: auditinternal.LevelRequest}},
		{"static omits managed fields, a sink does not", fixedConfig{Level: auditinternal.LevelRequest, OmitManagedFields: true}, []v1alpha1.Level{"Request"},
			audit.RequestAuditConfig{Level: auditinternal.LevelRequest}},
		{"static omits managed fields, sinks see no object", fixedConfig{Level: auditinternal.LevelRequest, OmitManagedFields: true}, []v1alpha1.Level{"Metadata"},
			audit.RequestAuditConfig{Level: auditinternal.LevelRequest, OmitManagedFields: true}},
	} {
		e := &Evaluator{Static: tc.static, Index: indexAt(tc.sinks...)}
		if diff := cmp.Diff(tc.want, e.EvaluatePolicyRule(pathRequest("u", nil, "get", "/"))); diff != "" {
			t.Errorf("%s: %s", tc.name, diff)
		}
	}
}

// DA-1: a sink gets ResponseStarted, ResponseComplete and Panic.
func TestStagesOfSinks(t *testing.T) {
	for stage, want := range map[auditinternal.Stage]bool{
		auditinternal.StageRequestReceived: false, auditinternal.StageResponseStarted: true,
		auditinternal.StageResponseComplete: true, auditinternal.StagePanic: true, "Future": false,
	} {
		if got := SinkWantsStage(stage); got != want {
			t.Errorf("%s: %v", stage, got)
		}
		if want && slices.Contains(sinkOmits, stage) {
			t.Errorf("%s is both wanted and omitted", stage)
		}
	}
}
