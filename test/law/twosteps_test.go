package law

import (
	"context"
	"fmt"
	"math/rand"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	machinery "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/request"

	"proviso.dev/proviso/internal/engine/expr"
	"proviso.dev/proviso/internal/request/authorize"
	"proviso.dev/proviso/internal/request/requestctx"
	"proviso.dev/proviso/test/refmodel"
)

// trial tries the law. It keeps what is dear to make from one world to the next.
type trial struct {
	compiler *expr.Compiler
	ref      *reference
	pool     *pool
	// conditional, refused and failed count the cases that were decided in admission, there refused, and there by a
	// failure.
	conditional, refused, failed int
}

func newTrial(t testing.TB) *trial {
	t.Helper()
	compiler, err := expr.New(expr.Config{})
	if err != nil {
		t.Fatal(err)
	}
	ref, err := newReference()
	if err != nil {
		t.Fatal(err)
	}
	return &trial{compiler: compiler, ref: ref}
}

// spy is a pending decision that remembers what it was resolved to.
type spy struct {
	requestctx.Pending
	out requestctx.Outcome
}

func (s *spy) Resolve(ctx context.Context, data authorizer.ConditionsData) requestctx.Outcome {
	s.out = s.Pending.Resolve(ctx, data)
	return s.out
}

// objects converts nothing: what is in the wanted version is taken as it is, everything else is an error.
var objects = admission.NewObjectInterfacesFromScheme(machinery.NewScheme())

// world tries the law on one world, on so many requests with so many objects each.
func (tr *trial) world(t testing.TB, seed int64, p refmodel.Pick, requests, bodies int) (cases int) {
	w := drawWorld(t, p, tr.pool, tr.compiler)
	for range requests {
		r := drawRequest(p)
		holder := requestctx.With(t.Context(), w.snapshot)
		ctx := request.WithRequestInfo(holder, &request.RequestInfo{IsResourceRequest: true, Path: r.Path, Verb: r.Verb, APIGroup: r.APIGroup,
			APIVersion: r.APIVersion, Namespace: r.Namespace, Resource: r.Resource, Subresource: r.Subresource, Name: r.Name})
		decision, reason, err := w.filter.Authorize(ctx, r)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		found := w.Hits(r)
		for range bodies {
			f := drawFacts(p, w, r)
			w.target = f.target
			want := tr.ref.chain(w, found, r, f)
			if wrong := tr.compare(ctx, w, r, f, decision, want); wrong != "" {
				t.Fatalf("seed %d: %s; one step: %s (failed %v)\nfilter: %s %s\n%s", seed, wrong, want.decision, want.failed, decision, reason, describe(w, r, f))
			}
			if wrong := tr.questions(t.Context(), w, r, f, want); wrong != "" {
				t.Fatalf("seed %d: %s; one step: %s (failed %v)\n%s", seed, wrong, want.decision, want.failed, describe(w, r, f))
			}
			cases++
		}
	}
	return cases
}

// questions holds what others make of the one decision against the one step: an API server that has authorizers of its
// own, with the object and without ever seeing it.
func (tr *trial) questions(ctx context.Context, w *world, r *refmodel.Request, f *facts, want verdict) string {
	if r.Name == "" {
		return "" // a deny on request.name is then about the name of each object (PO-20), which one step does not know
	}
	ctx = requestctx.With(ctx, w.snapshot)
	v := w.gate.Decide(ctx, r)
	switch folded := v.Folded(ctx); {
	case folded.Hangs():
		return "a folded verdict still depends on the object"
	case folded.Answer == authorize.Allowed && want.decision != authorizer.DecisionAllow:
		return "allowed without looking at the object"
	case want.decision == authorizer.DecisionDeny && folded.Answer != authorize.Denied:
		return "what denies under a condition does not deny where nothing looks at the object"
	}
	requestctx.From(ctx).Put(requestctx.Request, r, v.Beside())
	err := w.enforcer.Validate(ctx, f.admitted(r), objects)
	// Where nothing here allows, another authorizer has: then only a deny refuses.
	allowed := want.decision == authorizer.DecisionAllow || v.Answer == authorize.Unanswered && want.decision == authorizer.DecisionNoOpinion
	if (err == nil) != (allowed && v.Answer != authorize.Denied) {
		return fmt.Sprintf("beside another server: answer %d, the enforcer says %v", v.Answer, err)
	}
	return ""
}

// compare holds the two steps against the one, and says what is wrong.
func (tr *trial) compare(ctx context.Context, w *world, r *refmodel.Request, f *facts, decision authorizer.Decision, want verdict) string {
	holder := requestctx.From(ctx)
	pending := holder.Get(requestctx.Request).Pending()
	if decision != authorizer.DecisionAllow {
		// Nothing can allow it, so that the body is not read. Which refusal it is may still depend on the body, unless
		// it is a deny.
		if want.decision == authorizer.DecisionAllow || decision == authorizer.DecisionDeny && want.decision != authorizer.DecisionDeny {
			return "refused before the object was seen"
		}
		return ""
	}
	var watched *spy
	if pending != nil {
		var ok bool
		if watched, ok = pending.(*spy); !ok {
			watched = &spy{Pending: pending}
			holder.Put(requestctx.Request, r, requestctx.Conditional(watched))
		}
		watched.out = requestctx.Outcome{}
	}
	err := w.enforcer.Validate(ctx, f.admitted(r), objects)
	if (err == nil) != (want.decision == authorizer.DecisionAllow) {
		return fmt.Sprintf("the enforcer says %v", err)
	}
	if watched == nil {
		return ""
	}
	tr.conditional++
	if err != nil {
		tr.refused++
	}
	if watched.out.Decision != want.decision {
		return fmt.Sprintf("two steps: %s %s", watched.out.Decision, watched.out.Reason)
	}
	if want.decision == authorizer.DecisionDeny {
		if want.failed {
			tr.failed++
		}
		if want.failed && watched.out.Detail == nil {
			return "the deny does not say that its condition failed"
		}
	}
	return ""
}

func describe(w *world, r *refmodel.Request, f *facts) string {
	var b strings.Builder
	fmt.Fprintf(&b, "chain %v\nrequest %s %s %q %s.%s/%s name %q in %q groups %q\n", w.order, r.User.GetName(), r.Verb, r.Path, r.Resource, r.APIGroup, r.Subresource, r.Name, r.Namespace, r.User.GetGroups())
	fmt.Fprintf(&b, "operation %s kind %s own %v\nobject %v\nold %v\ntarget %v\n", f.operation, f.kind, f.ownKind, f.object, f.old, f.target)
	for _, master := range []bool{true, false} {
		for _, h := range w.Policy(r, master) {
			fmt.Fprintf(&b, "master %v: %+v\n  %+v %+v\n", master, h, *w.rule(h), w.rule(h).AttributeRestrictions)
		}
	}
	fmt.Fprintf(&b, "cluster-wide by RBAC: %d, local: %d\n", len(w.RBAC(r, true)), len(w.RBAC(r, false)))
	for name, o := range w.others {
		fmt.Fprintf(&b, "%s: %s fail open %v %+v\n", name, o.answers(r), o.failOpen, o.conditions)
	}
	return b.String()
}

// CA-2, CA-3, CA-4, CA-5, CA-12, PO-7: policies, a chain of authorizers, a request and an object are decided by the
// gate and the enforcer as one step with everything known decides them, errors included.
func TestTwoStepsEqualOne(t *testing.T) {
	var conditional, refused, failed atomic.Int64
	t.Run("on", func(t *testing.T) {
		for worker := range runtime.GOMAXPROCS(0) {
			t.Run(fmt.Sprint("processor-", worker), func(t *testing.T) {
				t.Parallel()
				tr := newTrial(t)
				var drawn int64 = -1
				Rounds(t, 25, func(seed int64) int {
					p := refmodel.Pick(rand.New(rand.NewSource(seed<<8 + int64(worker))).Intn)
					if pool := seed / 16; pool != drawn { // the expressions of sixteen worlds
						tr.pool, drawn = drawPool(refmodel.Pick(rand.New(rand.NewSource(pool)).Intn)), pool
					}
					return tr.world(t, seed, p, 150, 8)
				})
				conditional.Add(int64(tr.conditional))
				refused.Add(int64(tr.refused))
				failed.Add(int64(tr.failed))
			})
		}
	})
	t.Logf("%d decided in admission, %d refused there, %d of them by a failure", conditional.Load(), refused.Load(), failed.Load())
	if conditional.Load() < 1000 || refused.Load() < 300 || failed.Load() < 100 || refused.Load() == conditional.Load() {
		TooFew(t, "too few of the cases were conditional to prove anything")
	}
}

// FuzzTwoSteps is the same law with the fuzzer choosing.
func FuzzTwoSteps(f *testing.F) {
	tr := newTrial(f)
	tr.pool = drawPool(refmodel.Pick(rand.New(rand.NewSource(1)).Intn))
	Fuzz(f, func(t *testing.T, pick func(int) int) { tr.world(t, 0, pick, 20, 3) })
}
