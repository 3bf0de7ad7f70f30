package webhooks

import (
	"errors"
	"slices"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"proviso.dev/proviso/internal/engine/connect"
	"proviso.dev/proviso/internal/engine/verbs"
)

// Exempt are callers who bypass the admission webhook. A condition never allows them anything.
type Exempt struct {
	Users, Groups []string
}

// Has reports whether a user is exempt.
func (e Exempt) Has(u user.Info) bool {
	if u == nil {
		return false
	}
	return slices.Contains(e.Users, u.GetName()) || slices.ContainsFunc(u.GetGroups(), func(g string) bool { return slices.Contains(e.Groups, g) })
}

// Limits say where a condition becomes an allowance, because the request must reach our admission (SC-5).
type Limits struct {
	Exempt Exempt
	// Only are the resources for which it does; nil means all.
	Only []schema.GroupResource
	// Discovery knows what is served; without it nothing is.
	Discovery Discovery
	// Ours are our own groups, which have their own enforcer.
	Ours []string
}

// Discovery knows what the stock server serves.
type Discovery interface {
	// Lists reports whether it lists the verb for the resource or subresource.
	Lists(authorizer.Attributes) bool
}

var (
	errReview   = errors.New("a conditional permission cannot be used here: the question names no version")
	errUnlisted = errors.New("a conditional permission cannot be used here: no such request is served, so no object is admitted for it")
	errExempt   = errors.New("a conditional permission cannot be used here: the caller is exempt from the admission webhook")
	errNodes    = errors.New("a conditional permission cannot be used for nodes on a stock server: kubelets ask about them as well")
	errVirtual  = errors.New("a conditional permission cannot be used for reviews on a stock server")
	errProxied  = errors.New("a conditional permission cannot be used for proxies on a stock server: the path that is proxied cannot be told exactly")
	errVerb     = errors.New("a conditional permission cannot be used for this verb on a stock server: no object is admitted for it")
	errNotAmong = errors.New("a conditional permission cannot be used for this resource: it is not among those of --conditions-for")
)

// Check is nil if a condition on the request will be evaluated.
func (l Limits) Check(a authorizer.Attributes) error {
	version := a.GetAPIVersion()
	switch {
	case !a.IsResourceRequest() || version == "" || version == "*":
		return errReview
	case l.Discovery == nil || !l.Discovery.Lists(a):
		// The API server asks for its own purposes: owner references ask about finalizers, which is not a served
		// subresource.
		return errUnlisted
	case slices.Contains(l.Ours, a.GetAPIGroup()):
		return nil
	case l.Exempt.Has(a.GetUser()):
		return errExempt
	case a.GetAPIGroup() == "" && a.GetResource() == "nodes":
		return errNodes
	case a.GetAPIGroup() == authorizationv1.GroupName, a.GetAPIGroup() == authenticationv1.GroupName:
		return errVirtual
	}
	switch connect.Of(a.GetAPIGroup(), a.GetResource(), a.GetSubresource()) {
	case connect.Proxy:
		return errProxied
	case connect.None:
		if !verbs.IsWrite(a.GetVerb()) {
			return errVerb
		}
	}
	if l.Only != nil && !slices.Contains(l.Only, schema.GroupResource{Group: a.GetAPIGroup(), Resource: a.GetResource()}) {
		return errNotAmong
	}
	return nil
}
