package tokens

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/klog/v2"

	accessv1alpha1 "proviso.dev/proviso/api/access/v1alpha1"
	"proviso.dev/proviso/internal/engine/narrowedtoken"
	"proviso.dev/proviso/internal/request/bearer"
	"proviso.dev/proviso/internal/request/requestctx"
	"proviso.dev/proviso/internal/state/journal"
	"proviso.dev/proviso/internal/state/ledger"
	"proviso.dev/proviso/internal/state/snapshot"
)

const (
	// usual is the default lifetime of a token.
	usual = time.Hour
	// unknown is the maximum lifetime if the lifetime of the credential is not known.
	unknown = time.Hour
)

// annotationIssued is the audit annotation with the id of a token that was issued.
const annotationIssued = "authentication.proviso.dev/token-issued"

// issuer makes tokens.
type issuer struct {
	keys    narrowedtoken.Keys
	longest time.Duration
	clock   snapshot.Clock
	ledger  *ledger.Ledger
}

// Longest implements registry.Tokens.
func (i *issuer) Longest(ctx context.Context) (time.Duration, error) {
	return i.ledger.Longest(ctx, i.longest)
}

// Issue implements registry.Tokens.
func (i *issuer) Issue(ctx context.Context, spec accessv1alpha1.NarrowedTokenSpec, dryRun bool) (status accessv1alpha1.NarrowedTokenStatus, err error) {
	caller, b, err := i.caller(ctx)
	if err != nil {
		return status, err
	}
	now, known := i.clock.Now()
	if !known {
		return status, refused("the server does not know the time")
	}
	until := i.until(now, spec.ExpirationSeconds, b)
	if !until.After(now.Add(time.Second)) {
		return status, refused("your credential ends now")
	}
	p := narrowedtoken.Payload{Issued: now.Unix(), Expires: until.Unix(), User: userOf(caller), Audience: spec.Audience, Grants: spec.IncludeGrants, Bound: boundOf(caller, b)}
	id := make([]byte, 16)
	if _, err := rand.Read(id); err != nil {
		return status, err
	}
	p.ID = hex.EncodeToString(id)
	var before []string
	if parent := b.Token; parent != nil {
		before = parent.Texts
		p.Grants = p.Grants && parent.Payload.Grants
		p.Ancestors = append(slices.Clone(parent.Payload.Ancestors), narrowedtoken.Ancestor{ID: parent.Payload.ID, Issued: parent.Payload.Issued})
	}
	link := narrowedtoken.Link{Rules: spec.Rules, Description: spec.Description}
	if link.Rules == nil {
		link.Rules = []accessv1alpha1.TokenRule{}
	}
	token, err := narrowedtoken.Extend(i.keys[0], p, before, link)
	if err != nil {
		return status, apierrors.NewBadRequest(err.Error())
	}
	if dryRun {
		return status, nil
	}
	if err := i.ledger.Enter(ctx, ledger.EntryOf(&p, append(descriptions(b.Token), spec.Description)), now); err != nil {
		klog.ErrorS(err, "A narrowed token was not issued, because it could not be entered in the list of tokens", "user", p.User.Name, "id", p.ID)
		return status, apierrors.NewServiceUnavailable("the token cannot be entered in the list of tokens that were issued, and is not issued: try again in a moment")
	}
	audit.AddAuditAnnotation(ctx, annotationIssued, p.ID)
	ends := metav1.NewTime(until)
	return accessv1alpha1.NarrowedTokenStatus{Token: token, ID: p.ID, ExpirationTimestamp: &ends}, nil
}

// descriptions returns the descriptions of the links of a token; none for nil.
func descriptions(token *narrowedtoken.Token) (out []string) {
	if token == nil {
		return nil
	}
	for _, l := range token.Links {
		out = append(out, l.Description)
	}
	return out
}

func refused(format string, args ...any) error {
	return apierrors.NewForbidden(accessv1alpha1.Resource(narrowedTokens), "", fmt.Errorf(format, args...))
}

// caller returns the caller and the credential: a user can only ask for themselves.
func (i *issuer) caller(ctx context.Context) (user.Info, *requestctx.Bearer, error) {
	u, ok := request.UserFrom(ctx)
	b := requestctx.BearerOf(ctx)
	switch {
	case !ok || b == nil || b.User == nil || !b.Inspected:
		return nil, nil, refused("it is not known how you were authenticated")
	case journal.IsImpersonated(ctx) || !same(u, b.User):
		return nil, nil, refused("a token cannot be asked for while impersonating another user")
	case u.GetName() == user.Anonymous || slices.Contains(u.GetGroups(), user.AllUnauthenticated):
		return nil, nil, refused("log in to ask for a token")
	case u.GetName() == user.APIServerUser:
		return nil, nil, refused("the server itself has no tokens")
	}
	return u, b, nil
}

func same(a, b user.Info) bool {
	return a.GetName() == b.GetName() && a.GetUID() == b.GetUID() && slices.Equal(a.GetGroups(), b.GetGroups())
}

// until returns when the token expires: as asked for, but never after the credential of the request.
func (i *issuer) until(now time.Time, seconds *int64, b *requestctx.Bearer) time.Time {
	life := usual
	if seconds != nil {
		life = time.Duration(min(*seconds, int64(i.longest/time.Second))) * time.Second
	}
	until := now.Add(min(life, i.longest))
	if guess := now.Add(unknown); (b.Endless || b.Until.IsZero()) && guess.Before(until) {
		until = guess
	}
	if !b.Until.IsZero() && b.Until.Before(until) {
		until = b.Until
	}
	return until.Truncate(time.Second)
}

func userOf(u user.Info) narrowedtoken.User {
	out := narrowedtoken.User{Name: u.GetName(), UID: u.GetUID(), Groups: u.GetGroups()}
	if extra := bearer.Without(u.GetExtra()); len(extra) > 0 {
		out.Extra = extra
	}
	return out
}

// boundOf is what has to exist while the token is used: what the credential is bound to and, of a service account, the
// account itself.
func boundOf(u user.Info, b *requestctx.Bearer) *narrowedtoken.Bound {
	if b.Bound != nil {
		return b.Bound
	}
	namespace, name, err := serviceaccount.SplitUsername(u.GetName())
	if err != nil {
		return nil
	}
	return &narrowedtoken.Bound{Namespace: namespace, ServiceAccount: narrowedtoken.Object{Name: name, UID: u.GetUID()}}
}

// KeysOf reads key files.
func KeysOf(files []string, read func(string) ([]byte, error)) (keys narrowedtoken.Keys, err error) {
	for _, name := range files {
		text, err := read(name)
		if err != nil {
			return nil, fmt.Errorf("--narrowed-token-key-file: %w", err)
		}
		key, err := narrowedtoken.ParseKey(text)
		if err != nil {
			return nil, fmt.Errorf("--narrowed-token-key-file %s: %w", name, err)
		}
		keys = append(keys, key)
	}
	if len(keys) == 0 {
		return nil, errors.New("narrowed tokens need a key: give --narrowed-token-key-file, the same on all replicas")
	}
	return keys, nil
}
