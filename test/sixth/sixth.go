package sixth

import (
	"context"
	"fmt"
	"net/http"
	"sync/atomic"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"proviso.dev/proviso/internal/features/feature"
	"proviso.dev/proviso/internal/request/authorize"
	"proviso.dev/proviso/internal/request/enforce"
	"proviso.dev/proviso/internal/state/snapshot"
)

// Header is set by its filter.
const Header = "X-Sixth"

// Path tells how many snapshots it has seen.
const Path = "/sixth"

// New makes the system: nobody reads what has the name, and nobody writes it.
func New(name string) feature.System {
	seen := &part{}
	return feature.System{
		Name:  "sixth",
		Parts: func(snapshot.Source) ([]snapshot.Part, error) { return []snapshot.Part{seen}, nil },
		Links: []authorize.Link{{Name: "sixth", Authorizer: reader(name)}},
		Filters: []feature.Filter{{Name: "sixth", Wrap: func(next http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set(Header, name)
				next.ServeHTTP(w, r)
			})
		}}},
		Enforce: func(c *enforce.Config) { c.After = append(c.After, writer(name)) },
		Paths: []feature.Path{{Path: Path, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = fmt.Fprintf(w, "%v", seen.count.Load() > 0)
		})}},
	}
}

// part counts snapshots.
type part struct{ count atomic.Int64 }

func (*part) Name() string               { return "sixth" }
func (*part) HasSynced() bool            { return true }
func (p *part) Apply(*snapshot.Snapshot) { p.count.Add(1) }

// reader denies to read the name.
type reader string

// Authorize implements authorizer.Authorizer.
func (r reader) Authorize(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	if a.GetName() == string(r) && a.IsReadOnly() {
		return authorizer.DecisionDeny, "the sixth system keeps " + string(r), nil
	}
	return authorizer.DecisionNoOpinion, "", nil
}

// ConditionsAwareAuthorize implements authorizer.Authorizer: there are no conditions.
func (r reader) ConditionsAwareAuthorize(ctx context.Context, a authorizer.Attributes) authorizer.ConditionsAwareDecision {
	return authorizer.ConditionsAwareDecisionFromParts(r.Authorize(ctx, a))
}

// EvaluateConditions implements authorizer.Authorizer: there are none, so that nothing is allowed.
func (reader) EvaluateConditions(context.Context, authorizer.ConditionsAwareDecision, authorizer.ConditionsData) (authorizer.Decision, string, error) {
	return authorizer.DecisionDeny, "", nil
}

// writer refuses to write the name.
type writer string

// Handles implements admission.Interface.
func (writer) Handles(admission.Operation) bool { return true }

// Validate implements admission.ValidationInterface.
func (w writer) Validate(_ context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if a.GetName() != string(w) {
		return nil
	}
	return apierrors.NewForbidden(a.GetResource().GroupResource(), a.GetName(), fmt.Errorf("the sixth system keeps %s", string(w)))
}
