package authorize

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"proviso.dev/proviso/internal/request/requestctx"
)

// Enforce resolves a pending decision, measures it and, if the request is traced, records a span.
func Enforce(ctx context.Context, p requestctx.Pending, data authorizer.ConditionsData) requestctx.Outcome {
	ctx, span := startSpan(ctx, "proviso.enforce")
	begin := time.Now()
	out := p.Resolve(ctx, data)
	failed := "false"
	if out.Detail != nil {
		failed = "true"
		countFailure(out.Authorizer)
	}
	kind := typeLabels.bounded(out.Types)
	enforcedTotal.WithLabelValues(out.Authorizer, kind, out.Decision.String(), failed).Inc()
	enforcedSeconds.WithLabelValues(out.Authorizer, kind).Observe(time.Since(begin).Seconds())
	if span != nil {
		span.SetAttributes(attribute.String("authorizer", out.Authorizer), attribute.String("decision", out.Decision.String()), attribute.StringSlice("conditions", out.Conditions))
		span.End()
	}
	if waiting, ok := p.(*pending); ok && out.Decision != authorizer.DecisionNoOpinion && IsAudited(ctx) {
		waiting.walk.record(ctx, out)
	}
	return out
}
