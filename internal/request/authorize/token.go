package authorize

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	accessv1alpha1 "proviso.dev/proviso/api/access/v1alpha1"
	"proviso.dev/proviso/internal/engine/fieldperm"
	"proviso.dev/proviso/internal/engine/narrowedtoken"
	"proviso.dev/proviso/internal/engine/verbs"
	"proviso.dev/proviso/internal/request/requestctx"
	"proviso.dev/proviso/internal/state/snapshot"
)

// ExtraLinks is the key in a user's extra that holds the links of a narrowed token, by value: TokenReview confirms it,
// aggregated servers get it, and a SubjectAccessReview is asked with it. It can only take rights away.
const ExtraLinks = "authentication.proviso.dev/links"

// Token refuses what the narrowed token of the caller does not allow. It runs ahead of the whole chain, since a token
// of a cluster admin is narrowed, too. It never allows what the links behind it do not, with one exception: every token
// may revoke itself.
type Token struct {
	store *snapshot.Store
	links *narrowedtoken.Compiler
	bound Bound
}

// Bound knows whether what a credential was bound to still exists.
type Bound interface {
	Check(ctx context.Context, bound *narrowedtoken.Bound) error
}

// NewToken returns the tier. The compiler compiles the links of tokens.
func NewToken(store *snapshot.Store, links *narrowedtoken.Compiler, bound Bound) *Token {
	return &Token{store: store, links: links, bound: bound}
}

var (
	_ authorizer.Authorizer   = (*Token)(nil)
	_ authorizer.RuleResolver = (*Token)(nil)
	_ opener                  = (*Token)(nil)
)

// Authorize folds conditions: a link that allows only some objects allows none.
func (t *Token) Authorize(ctx context.Context, attrs authorizer.Attributes) (authorizer.Decision, string, error) {
	return t.fold(ctx, attrs, lists{})
}

func (t *Token) fold(ctx context.Context, attrs authorizer.Attributes, how lists) (authorizer.Decision, string, error) {
	d, set := t.open(ctx, attrs, how)
	if set == nil {
		return Parts(d)
	}
	for _, c := range set.denies {
		if l, ok := c.(*linkCondition); ok {
			return authorizer.DecisionDeny, l.refusal() + ": it allows some objects, and here none can be looked at", nil
		}
	}
	return set.folded(), folds(set.canBecome(authorizer.DecisionAllow)), nil
}

// ConditionsAwareAuthorize decides, or says under which conditions it denies.
func (t *Token) ConditionsAwareAuthorize(ctx context.Context, attrs authorizer.Attributes) authorizer.ConditionsAwareDecision {
	return decisionOf(t.open(ctx, attrs, lists{}))
}

// EvaluateConditions decides a set that this tier returned.
func (t *Token) EvaluateConditions(ctx context.Context, d authorizer.ConditionsAwareDecision, data authorizer.ConditionsData) (authorizer.Decision, string, error) {
	return evaluateSets(ctx, tokenLabel, d, data)
}

// RulesFor has no rules to add. The rules that the other links list may be more than the token allows.
func (t *Token) RulesFor(ctx context.Context, u user.Info, _ string) ([]authorizer.ResourceRuleInfo, []authorizer.NonResourceRuleInfo, bool, error) {
	if token, extra := carried(u); token == nil && extra == nil && requestctx.TokenOf(ctx) == nil {
		return nil, nil, false, nil
	}
	return nil, nil, true, errors.New("the narrowed token of the caller allows less than what is listed")
}

// tokenLabel is the prefix of the reasons of this tier.
const tokenLabel = "your token"

// open asks every link. Requests without a token cost two look-ups.
func (t *Token) open(ctx context.Context, attrs authorizer.Attributes, _ lists) (authorizer.ConditionsAwareDecision, *openSet) {
	token, extra := carried(attrs.GetUser())
	if came := requestctx.TokenOf(ctx); came != nil && came != token {
		return refuse("the narrowed token of the request belongs to another user than the one asked about: nothing is allowed"), nil
	}
	texts := extra
	if token != nil {
		if why := t.Ended(ctx, token); why != "" {
			return refuse(why), nil
		}
		if revokes(attrs) {
			return authorizer.ConditionsAwareDecisionAllow("a token may revoke itself", nil), nil
		}
		texts = token.Texts
	}
	if token == nil && extra == nil {
		return authorizer.ConditionsAwareDecisionNoOpinion("", nil), nil
	}
	return t.ask(ctx, attrs, texts)
}

func refuse(why string) authorizer.ConditionsAwareDecision {
	return authorizer.ConditionsAwareDecisionDeny(why, nil)
}

// carried returns the token that a user carries, or the links of one by value.
func carried(u user.Info) (token *narrowedtoken.Token, extra []string) {
	if u == nil {
		return nil, nil
	}
	if n, ok := u.(requestctx.TokenUser); ok {
		return n.NarrowedToken(), nil
	}
	texts, found := u.GetExtra()[ExtraLinks]
	if found && texts == nil {
		texts = []string{} // it is there, and allows nothing
	}
	return nil, texts
}

// usesGrants reports whether grants of access requests count for a user: they do not if the user's token was issued
// without them.
func usesGrants(u user.Info) bool {
	token, extra := carried(u)
	return extra == nil && (token == nil || token.Payload.Grants)
}

// carrying attaches the token of the request to the user in the request's own check: by then impersonation may have
// replaced the user. No other code adds a token to a user.
func carrying(ctx context.Context, attrs authorizer.Attributes) authorizer.Attributes {
	token := requestctx.TokenOf(ctx)
	if token == nil {
		return attrs
	}
	if _, ok := attrs.GetUser().(requestctx.TokenUser); ok || attrs.GetUser() == nil {
		return attrs
	}
	return withToken{attrs, &tokenUser{attrs.GetUser(), token}}
}

// withToken is a request whose user carries a token.
type withToken struct {
	authorizer.Attributes
	user *tokenUser
}

// GetUser implements authorizer.Attributes.
func (w withToken) GetUser() user.Info { return w.user }

type tokenUser struct {
	user.Info
	token *narrowedtoken.Token
}

// NarrowedToken implements requestctx.TokenUser.
func (u *tokenUser) NarrowedToken() *narrowedtoken.Token { return u.token }

// revokes reports whether this is the request by which a token revokes itself. The storage checks which token it names.
func revokes(attrs authorizer.Attributes) bool {
	return attrs.IsResourceRequest() && attrs.GetVerb() == verbs.Create && attrs.GetAPIGroup() == accessv1alpha1.GroupName &&
		attrs.GetResource() == snapshot.TokenRevocations.Resource && attrs.GetSubresource() == ""
}

// Ended says why a token is no longer valid; empty if it is valid.
func (t *Token) Ended(ctx context.Context, token *narrowedtoken.Token) string {
	now := requestctx.InstantOf(ctx)
	if now.IsZero() {
		var known bool
		if now, known = t.store.Clock().Now(); !known {
			return "your token cannot be used while the server does not know the time"
		}
	}
	if end := token.Expires(); !now.Before(end) {
		return fmt.Sprintf("your token ended %s ago: ask for a new one", now.Sub(end).Round(time.Second))
	}
	if SnapshotOf(ctx, t.store).Revoked.Has(&token.Payload) {
		return "your token is revoked"
	}
	if token.Payload.Bound != nil {
		if err := t.bound.Check(ctx, token.Payload.Bound); err != nil {
			return "your token is over: " + err.Error()
		}
	}
	return ""
}

// ask asks the links, in order. The first that refuses is named.
func (t *Token) ask(ctx context.Context, attrs authorizer.Attributes, texts []string) (authorizer.ConditionsAwareDecision, *openSet) {
	if len(texts) == 0 || len(texts) > narrowedtoken.MaxLinks {
		return refuse(tokenLabel + " does not allow it: it has no links, or too many"), nil
	}
	snap := SnapshotOf(ctx, t.store)
	if snap.Served == nil {
		return refuse(errNoIndex.Error()), nil
	}
	set := &openSet{label: tokenLabel, attrs: attrs, at: requestctx.InstantOf(ctx), limits: true}
	for i, text := range texts {
		rules, err := t.links.Link(text, snap.Served.Kinds())
		if err != nil {
			return refuse(fmt.Sprintf("%s does not allow it: link %d cannot be read", tokenLabel, i+1)), nil
		}
		link := &linkCondition{number: i + 1, text: text, rules: rules.Link}
		answer := rules.Ask(attrs)
		if answer.IsRefused() {
			return refuse(link.refusal() + unnamed(attrs, answer.Unnamed)), nil
		}
		switch link.bind(set, answer) {
		case authorizer.DecisionDeny:
			return refuse(link.refusal()), nil
		case authorizer.DecisionNoOpinion:
			if h, reads := link.readsHidden(snap.Fields, fieldperm.Resource{Group: attrs.GetAPIGroup(), Resource: attrs.GetResource()}); reads {
				return refuse(fmt.Sprintf("%s: its condition may read the field %s, which is hidden (%s), and a token cannot look at hidden fields", link.refusal(), h.Field, h.Source)), nil
			}
			set.denies = append(set.denies, link)
		}
	}
	if len(set.denies) == 0 {
		return authorizer.ConditionsAwareDecisionNoOpinion("", nil), nil
	}
	return authorizer.ConditionsAwareDecision{}, set
}

// unnamed says what the link would have to name.
func unnamed(attrs authorizer.Attributes, why string) string {
	if why == "" {
		return ""
	}
	what := []string{attrs.GetVerb(), attrs.GetResource()}
	if sub := attrs.GetSubresource(); sub != "" {
		what[1] += "/" + sub
	}
	return fmt.Sprintf(" has a wildcard, which does not cover %s: with it, one can %s", strings.Join(what, " "), why)
}
