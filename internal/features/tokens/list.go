package tokens

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/klog/v2"

	accessv1alpha1 "proviso.dev/proviso/api/access/v1alpha1"
	"proviso.dev/proviso/internal/features/feature"
	"proviso.dev/proviso/internal/request/turns"
	"proviso.dev/proviso/internal/state/ledger"
)

// ListPath serves `proviso token list`. The normal authorization filter asks for get on it. Callers see their own
// tokens; those of other users need the verb list on narrowedtokens.
const ListPath = "/proviso/tokens"

// List is what a server tells of the tokens that were issued.
type List struct {
	Kind       string   `json:"kind"`
	APIVersion string   `json:"apiVersion"`
	Items      []Issued `json:"items"`
	// Revocations are those that are about these tokens, or about their users.
	Revocations []Revocation `json:"revocations"`
	// Dropped is true if further unexpired tokens are no longer listed, because there are too many.
	Dropped bool `json:"dropped,omitempty"`
	// Unreadable is how many this server cannot read.
	Unreadable int `json:"unreadable,omitempty"`
}

// Revocation is a TokenRevocation, as far as it is about what is listed.
type Revocation struct {
	Name         string       `json:"name"`
	Created      metav1.Time  `json:"created"`
	IssuedBefore *metav1.Time `json:"issuedBefore,omitempty"`
	TokenIDs     []string     `json:"tokenIDs,omitempty"`
	UserNames    []string     `json:"userNames,omitempty"`
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

// lister serves the ledger. It reads it from etcd each time, so all replicas list the same.
type lister struct {
	kernel *feature.Kernel
	ledger *ledger.Ledger
	// turns bounds how many read the tokens of all users at a time (NI-6).
	turns turns.Queue
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
		return nil, apierrors.NewForbidden(here, "", errors.New("the request is not authenticated"))
	}
	query := r.URL.Query()
	name, all := query.Get("user"), query.Get("all") == "true"
	switch {
	case name != "" && all:
		return nil, apierrors.NewBadRequest("user and all are mutually exclusive")
	case name == "" && !all:
		name = caller.GetName()
	}
	if all {
		done, err := l.turns.Take(r.Context(), caller)
		if err != nil {
			return nil, err
		}
		defer done()
	}
	if name != caller.GetName() {
		decision, why, err := l.kernel.Gate.Chain.Authorize(r.Context(), authorizer.AttributesRecord{User: caller, Verb: "list", APIGroup: accessv1alpha1.GroupName,
			APIVersion: accessv1alpha1.SchemeGroupVersion.Version, Resource: narrowedTokens, ResourceRequest: true})
		if err != nil || decision != authorizer.DecisionAllow {
			return nil, apierrors.NewForbidden(accessv1alpha1.Resource(narrowedTokens), "", fmt.Errorf("tokens of others are for those who may list narrowedtokens.%s%s", accessv1alpha1.GroupName, because(why)))
		}
	}
	return l.told(r.Context(), name)
}

func because(why string) string {
	if why == "" {
		return ""
	}
	return ": " + why
}

// told returns what the caller learns about the tokens of a user, or of all.
func (l *lister) told(ctx context.Context, name string) (*List, error) {
	snap, now := l.kernel.Store.Now()
	listed, err := l.ledger.List(ctx, name, now)
	if err != nil {
		klog.ErrorS(err, "The list of narrowed tokens cannot be read")
		return nil, apierrors.NewServiceUnavailable("the list of tokens cannot be read: try again in a moment")
	}
	out := &List{Kind: "NarrowedTokenList", APIVersion: "tools.proviso.dev/v1alpha1", Items: []Issued{}, Dropped: listed.Dropped, Unreadable: listed.Unreadable}
	about := subjects{all: name == "", user: name, ids: map[string]bool{}}
	for i := range listed.Entries {
		e := &listed.Entries[i]
		about.ids[e.ID] = true
		one := Issued{ID: e.ID, User: e.User, Issued: metav1.Unix(e.Issued, 0), Expires: metav1.Unix(e.Expires, 0), Revoked: snap.Revoked.Has(e.Payload()),
			Links: e.Links, Audience: e.Audience, IncludeGrants: e.Grants}
		if n := len(e.From); n > 0 {
			one.From = e.From[n-1].ID
		}
		out.Items = append(out.Items, one)
	}
	out.Revocations = about.revocations(snap.Revoked.Objects())
	return out, nil
}

// subjects are whom and what a list is about.
type subjects struct {
	all  bool
	user string
	ids  map[string]bool
}

// revocations are those about the subjects, with nothing about others, the oldest first.
func (s *subjects) revocations(objects []*accessv1alpha1.TokenRevocation) []Revocation {
	out := []Revocation{}
	for _, o := range objects {
		one := Revocation{Name: o.Name, Created: o.CreationTimestamp, IssuedBefore: o.Spec.IssuedBefore}
		for _, id := range o.Spec.TokenIDs {
			if s.all || s.ids[id] {
				one.TokenIDs = append(one.TokenIDs, id)
			}
		}
		for _, user := range o.Spec.UserNames {
			if s.all || s.user == user {
				one.UserNames = append(one.UserNames, user)
			}
		}
		if s.all || len(one.TokenIDs)+len(one.UserNames) > 0 {
			out = append(out, one)
		}
	}
	slices.SortFunc(out, func(a, b Revocation) int {
		return cmp.Or(a.Created.Compare(b.Created.Time), cmp.Compare(a.Name, b.Name))
	})
	return out
}
