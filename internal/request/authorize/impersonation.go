package authorize

import (
	"context"
	"errors"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/filters"

	"proviso.dev/proviso/internal/engine/expr"
)

// impersonate answers the impersonation filter. At that point everything is known that a condition on impersonation can
// be about: the impersonated request, as impersonatedRequest (CA-19). So conditions are evaluated at once.
func (g *Gate) impersonate(ctx context.Context, attrs authorizer.Attributes) (authorizer.Decision, string, error) {
	v := g.Decide(ctx, attrs)
	v.Report(ctx)
	if v.Answer != Open {
		if v.Answer == Allowed {
			g.annotateGrant(ctx, attrs, v.By)
		}
		g.final(ctx, attrs, v, v.Answer == Allowed, nil)
		return v.AtAuthorization(), v.Reason, v.Err // it is not open
	}
	own, err := filters.GetAuthorizerAttributes(ctx)
	if err != nil {
		return authorizer.DecisionDeny, "", err
	}
	data := newImpersonation(attrs, expr.NewRequest(own))
	out := v.Resolve(ctx, data)
	if out.Detail != nil {
		// Only the audit log says what failed; the caller only learns that the request is not allowed.
		audit.AddAuditAnnotation(ctx, "authorization.proviso.dev/impersonation-detail", out.Detail.Error())
		countFailure(out.Authorizer)
	}
	if out.Decision == authorizer.DecisionAllow {
		g.annotateGrant(ctx, attrs, out.Authorizer)
	}
	g.final(ctx, attrs, v, out.Decision == authorizer.DecisionAllow, data)
	return out.Decision, out.Reason, nil
}

// ConditionalImpersonation reports whether the verb is of a check whose answer upstream does not reuse for other
// requests. For ten seconds upstream remembers that a user passed impersonate:<mode>, whatever the request was: the
// answer of a condition there would leak to the next request.
func ConditionalImpersonation(verb string) bool {
	return verb == "impersonate" || strings.HasPrefix(verb, "impersonate-on:")
}

var errRemembered = errors.New("a conditional permission cannot be used for impersonate:<mode>: the server remembers for some seconds who " +
	"passed it; put the condition on impersonate-on:<mode>:<verb>")

// Evaluated returns, for reviews, why a condition on such a request would not be evaluated, or nil if it would: in
// admission, or in the impersonation filter.
func (g *Gate) Evaluated(attrs authorizer.Attributes) error {
	switch verb := attrs.GetVerb(); {
	case !isImpersonation(verb):
		return g.Honours(attrs)
	case g.limit.Check(attrs) != nil:
		return g.limit.Check(attrs)
	case !ConditionalImpersonation(verb):
		return errRemembered
	}
	return nil
}

func isImpersonation(verb string) bool { return strings.HasPrefix(verb, "impersonate") }

// impersonation is the data of a check that has no object.
type impersonation struct {
	attrs authorizer.Attributes
	own   *expr.Request
	data  *expr.Data
}

func newImpersonation(attrs authorizer.Attributes, own *expr.Request) *impersonation {
	return &impersonation{attrs: attrs, own: own, data: expr.NewData(expr.DataConfig{Impersonated: own})}
}

// Aside returns the same data with a separate budget, for rules that decide nothing.
func (i *impersonation) Aside() authorizer.ConditionsData { return newImpersonation(i.attrs, i.own) }

var _ Facts = (*impersonation)(nil)

// Trusted implements Facts.
func (i *impersonation) Trusted() error { return nil }

func (i *impersonation) Expr() *expr.Data                            { return i.data }
func (i *impersonation) GetName() string                             { return i.attrs.GetName() }
func (i *impersonation) GetNamespace() string                        { return i.attrs.GetNamespace() }
func (i *impersonation) GetSubresource() string                      { return i.attrs.GetSubresource() }
func (i *impersonation) GetUserInfo() user.Info                      { return i.attrs.GetUser() }
func (i *impersonation) GetObject() runtime.Object                   { return nil }
func (i *impersonation) GetOldObject() runtime.Object                { return nil }
func (i *impersonation) IsDryRun() bool                              { return false }
func (i *impersonation) GetKind() schema.GroupVersionKind            { return schema.GroupVersionKind{} }
func (i *impersonation) GetOperation() authorizer.AdmissionOperation { return "" }
func (i *impersonation) GetOperationOptions() runtime.Object         { return nil }
func (i *impersonation) GetResource() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: i.attrs.GetAPIGroup(), Version: i.attrs.GetAPIVersion(), Resource: i.attrs.GetResource()}
}
