package tokens

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/klog/v2"

	accessv1alpha1 "proviso.dev/proviso/api/access/v1alpha1"
	"proviso.dev/proviso/internal/features/feature"
)

// ListPath serves `proviso token list`. The normal authorization filter asks for get on it. Callers see their own
// tokens; those of others take the verb list on narrowedtokens.
const ListPath = "/proviso/tokens"

// List is what a server tells of the tokens that it has issued.
type List struct {
	Kind       string `json:"kind"`
	APIVersion string `json:"apiVersion"`
	// Since is when the server began to remember.
	Since metav1.Time `json:"since"`
	Items []Issued    `json:"items"`
}

// Issued is a token that has not ended.
type Issued struct {
	ID      string      `json:"id"`
	User    string      `json:"user"`
	Issued  metav1.Time `json:"issued"`
	Expires metav1.Time `json:"expires"`
	// Revoked: it is over, or the token that it was asked for with is.
	Revoked bool `json:"revoked,omitempty"`
	// Links has the description of each link that the server knows of. Holders may have added others.
	Links    []string `json:"links"`
	Audience string   `json:"audience,omitempty"`
	// IncludeGrants: what was granted by access requests counts for it.
	IncludeGrants bool `json:"includeGrants,omitempty"`
	// From is the token that it was asked for with.
	From string `json:"from,omitempty"`
}

// lister serves the ledger.
type lister struct {
	kernel *feature.Kernel
	ledger *ledger
	since  time.Time
}

// ServeHTTP answers with a List.
func (l *lister) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	list, err := l.list(r)
	if err != nil {
		responsewriters.ErrorNegotiated(err, l.kernel.Codecs, schema.GroupVersion{Version: "v1"}, w, r)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(list); err != nil {
		klog.V(2).InfoS("The list of tokens was not sent to its end", "err", err)
	}
}

func (l *lister) list(r *http.Request) (*List, error) {
	here := schema.GroupResource{Resource: ListPath}
	if r.Method != http.MethodGet {
		return nil, apierrors.NewMethodNotSupported(here, r.Method)
	}
	caller, ok := request.UserFrom(r.Context())
	if !ok {
		return nil, apierrors.NewForbidden(here, "", errors.New("nobody is authenticated"))
	}
	query := r.URL.Query()
	name, all := query.Get("user"), query.Get("all") == "true"
	switch {
	case name != "" && all:
		return nil, apierrors.NewBadRequest("user and all are mutually exclusive")
	case name == "" && !all:
		name = caller.GetName()
	}
	if name != caller.GetName() {
		decision, why, err := l.kernel.Gate.Chain.Authorize(r.Context(), authorizer.AttributesRecord{User: caller, Verb: "list", APIGroup: accessv1alpha1.GroupName,
			APIVersion: accessv1alpha1.SchemeGroupVersion.Version, Resource: narrowedTokens, ResourceRequest: true})
		if err != nil || decision != authorizer.DecisionAllow {
			return nil, apierrors.NewForbidden(accessv1alpha1.Resource(narrowedTokens), "", fmt.Errorf("tokens of others are for those who may list narrowedtokens.%s%s", accessv1alpha1.GroupName, because(why)))
		}
	}
	return l.told(name), nil
}

func because(why string) string {
	if why == "" {
		return ""
	}
	return ": " + why
}

// told is what is told of the tokens of a user, or of all.
func (l *lister) told(name string) *List {
	snap, now := l.kernel.Store.Now()
	out := &List{Kind: "NarrowedTokenList", APIVersion: "tools.proviso.dev/v1alpha1", Since: metav1.NewTime(l.since.UTC().Truncate(time.Second)), Items: []Issued{}}
	for _, i := range l.ledger.of(name, now) {
		p := &i.payload
		one := Issued{ID: p.ID, User: p.User.Name, Issued: metav1.Unix(p.Issued, 0), Expires: metav1.Unix(p.Expires, 0), Revoked: snap.Revoked.Has(p),
			Links: i.descriptions, Audience: p.Audience, IncludeGrants: p.Grants}
		if n := len(p.Ancestors); n > 0 {
			one.From = p.Ancestors[n-1].ID
		}
		out.Items = append(out.Items, one)
	}
	return out
}
