package sink

import (
	"slices"

	auditinternal "k8s.io/apiserver/pkg/apis/audit"
	"k8s.io/apiserver/pkg/audit"

	"proviso.dev/proviso/internal/engine/auditrule"
)

// Static is the audit that the command line configures: --audit-policy-file with the log and webhook backends. It is
// one more sink, which the API cannot see or change.
type Static struct {
	// Evaluator is the static policy.
	Evaluator audit.PolicyRuleEvaluator
	// Backend gets what the static policy asks for, exactly as without any sink.
	Backend audit.Backend
}

// process hands the event to the static backend as it would be if nobody else were interested, and returns its answer:
// whether a blocking backend accepts the request is still its decision.
func (s *Static) process(ev *auditinternal.Event, shared bool) bool {
	cfg := s.Evaluator.EvaluatePolicyRule(auditrule.EventAttributes(ev))
	want, _ := auditrule.LevelOf(cfg.Level)
	have, known := auditrule.LevelOf(ev.Level)
	if !known {
		have = auditrule.RequestResponse
	}
	level := min(want, have)
	if level == auditrule.None || slices.Contains(cfg.OmitStages, ev.Stage) {
		return true
	}
	out := ev
	if shared || level != have {
		out = trimmed(ev, level)
	}
	if cfg.OmitManagedFields {
		out = withoutManagedFieldsOf(out)
	}
	return s.Backend.ProcessEvents(out)
}

// withoutManagedFieldsOf leaves the managed fields out of both bodies, for an event that was made with them because a
// sink wants them. A patch is recorded as it was sent.
func withoutManagedFieldsOf(ev *auditinternal.Event) *auditinternal.Event {
	request, answer := ev.RequestObject, withoutManagedFields(ev.ResponseObject)
	if ev.Verb != "patch" {
		request = withoutManagedFields(request)
	}
	if request == ev.RequestObject && answer == ev.ResponseObject {
		return ev
	}
	out := *ev
	out.RequestObject, out.ResponseObject = request, answer
	return &out
}
