package dynamicaudit

import (
	"context"
	"strings"
	"testing"

	authnv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	auditinternal "k8s.io/apiserver/pkg/apis/audit"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/client-go/tools/cache"

	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/internal/engine/auditrule"
	"proviso.dev/proviso/internal/features/dynamicaudit/sink"
	"proviso.dev/proviso/internal/features/feature"
	"proviso.dev/proviso/internal/request/authorize"
	"proviso.dev/proviso/internal/state/snapshot"
)

// accounts has one account for each uid.
type accounts map[string]string

func (a accounts) UID(namespace, name string) (string, bool) {
	uid, found := a[namespace+"/"+name]
	return uid, found
}

func (accounts) Follow(func()) (cache.InformerSynced, error) { return nil, nil }

// gets lets the account team/reader get what is listed, as resource/subresource.
func gets(allowed ...string) authorizer.AuthorizerFunc {
	return func(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
		what := a.GetResource()
		if a.GetSubresource() != "" {
			what += "/" + a.GetSubresource()
		}
		for _, one := range allowed {
			if a.GetUser().GetName() == "system:serviceaccount:team:reader" && a.GetVerb() == "get" && a.GetNamespace() == "team" && what == one {
				return authorizer.DecisionAllow, "", nil
			}
		}
		return authorizer.DecisionNoOpinion, "", nil
	}
}

// DA-17: an event is cut to what the account may get: its bodies, its text, and whether there is anything at all.
func TestCut(t *testing.T) {
	store := snapshot.NewStore()
	chain, err := authorize.NewChain(authorize.Link{Name: "test", Authorizer: gets("pods", "pods/status", "pods/log", "secrets", "serviceaccounts", "serviceaccounts/token", "localsubjectaccessreviews", "podcertificaterequests")})
	if err != nil {
		t.Fatal(err)
	}
	c := cutter{&feature.Kernel{Store: store, Gate: &authorize.Gate{Chain: chain}}, accounts{"team/reader": "u1"}}
	scope := sink.Scope{Namespace: "team", Account: "reader", UID: "u1"}
	event := func(verb string, ref *auditinternal.ObjectReference) *auditinternal.Event {
		return &auditinternal.Event{Verb: verb, ObjectRef: ref, RequestURI: "/api?fieldSelector=x", RequestObject: &runtime.Unknown{Raw: []byte("{}")}, ResponseObject: &runtime.Unknown{Raw: []byte("{}")},
			User: authnv1.UserInfo{Username: "u", Extra: map[string]authnv1.ExtraValue{"k": {"v"}}}, ImpersonatedUser: &authnv1.UserInfo{Username: "i", Extra: map[string]authnv1.ExtraValue{"k": {"v"}}},
			ResponseStatus: &metav1.Status{Code: 200, Message: "says something"}, Annotations: map[string]string{"authorization.k8s.io/decision": "allow", "authorization.k8s.io/reason": "names a role"}}
	}
	pod := func(sub string) *auditinternal.ObjectReference {
		return &auditinternal.ObjectReference{Resource: "pods", Namespace: "team", Name: "p", Subresource: sub}
	}
	of := func(group, resource, sub string) *auditinternal.ObjectReference {
		return &auditinternal.ObjectReference{APIGroup: group, Resource: resource, Namespace: "team", Name: "p", Subresource: sub}
	}
	for name, tc := range map[string]struct {
		ev     *auditinternal.Event
		scope  sink.Scope
		level  auditrule.Level
		want   auditrule.Level
		bodies bool
	}{
		"its object":              {event("update", pod("")), scope, auditrule.RequestResponse, auditrule.RequestResponse, true},
		"the request alone":       {event("update", pod("")), scope, auditrule.Request, auditrule.Request, true},
		"metadata is asked for":   {event("update", pod("")), scope, auditrule.Metadata, auditrule.Metadata, false},
		"the status":              {event("patch", pod("status")), scope, auditrule.Request, auditrule.Request, true},
		"a scale it may not get":  {event("patch", pod("scale")), scope, auditrule.Request, auditrule.Metadata, false},
		"another subresource":     {event("get", pod("log")), scope, auditrule.Request, auditrule.Metadata, false},
		"what it may not get":     {event("update", of("", "configmaps", "")), scope, auditrule.Request, auditrule.Metadata, false},
		"a secret":                {event("update", of("", "secrets", "")), scope, auditrule.Request, auditrule.Metadata, false},
		"a token":                 {event("create", of("", "serviceaccounts", "token")), scope, auditrule.Request, auditrule.Metadata, false},
		"a review":                {event("create", of("authorization.k8s.io", "localsubjectaccessreviews", "")), scope, auditrule.Request, auditrule.Metadata, false},
		"a certificate":           {event("create", of("certificates.k8s.io", "podcertificaterequests", "")), scope, auditrule.Request, auditrule.Metadata, false},
		"a list":                  {event("list", pod("")), scope, auditrule.Request, auditrule.Metadata, false},
		"a watch of one":          {event("watch", pod("")), scope, auditrule.Request, auditrule.Metadata, false},
		"many are deleted":        {event("deletecollection", pod("")), scope, auditrule.Request, auditrule.Metadata, false},
		"no name":                 {event("create", &auditinternal.ObjectReference{Resource: "pods", Namespace: "team"}), scope, auditrule.Request, auditrule.Metadata, false},
		"another namespace":       {event("update", &auditinternal.ObjectReference{Resource: "pods", Namespace: "other", Name: "p"}), scope, auditrule.Request, auditrule.None, false},
		"no namespace":            {event("update", &auditinternal.ObjectReference{Resource: "nodes", Name: "p"}), scope, auditrule.Request, auditrule.None, false},
		"no object":               {event("get", nil), scope, auditrule.Request, auditrule.None, false},
		"another account":         {event("update", pod("")), sink.Scope{Namespace: "team", Account: "reader", UID: "u2"}, auditrule.Request, auditrule.None, false},
		"an account that is gone": {event("update", pod("")), sink.Scope{Namespace: "team", Account: "ghost", UID: "u1"}, auditrule.Request, auditrule.None, false},
		"an account without uid":  {event("update", pod("")), sink.Scope{Namespace: "team", Account: "reader"}, auditrule.Request, auditrule.None, false},
	} {
		out, level, reveal := c.Cut(tc.ev, tc.scope, tc.level)
		if level != tc.want || (out == nil) != (tc.want == auditrule.None) || len(reveal) > 0 {
			t.Errorf("%s: level %v", name, level)
			continue
		}
		if tc.ev.RequestObject == nil || len(tc.ev.Annotations) != 2 || tc.ev.User.Extra == nil || tc.ev.ImpersonatedUser.Extra == nil {
			t.Errorf("%s: the event of others was changed", name)
		}
		if out == nil {
			continue
		}
		if (out.RequestObject != nil || out.ResponseObject != nil) != tc.bodies {
			t.Errorf("%s: %+v", name, out)
		}
		if len(out.Annotations) != 1 || out.User.Extra != nil || out.ImpersonatedUser.Extra != nil || strings.Contains(out.RequestURI, "?") {
			t.Errorf("%s: %+v", name, out)
		}
	}
}

// DA-17: why a request was refused is said by rules of the whole cluster. A sink of a namespace gets the code, and the
// body that was sent.
func TestCutRefusals(t *testing.T) {
	chain, err := authorize.NewChain(authorize.Link{Name: "test", Authorizer: gets("pods")})
	if err != nil {
		t.Fatal(err)
	}
	c := cutter{&feature.Kernel{Store: snapshot.NewStore(), Gate: &authorize.Gate{Chain: chain}}, accounts{"team/reader": "u1"}}
	for code, refused := range map[int32]bool{200: false, 400: true, 403: true, 409: true, 422: true, 500: true} {
		for resource, bodies := range map[string]bool{"pods": true, "configmaps": false} {
			ev := &auditinternal.Event{Verb: "update", ObjectRef: &auditinternal.ObjectReference{Resource: resource, Namespace: "team", Name: "p"},
				RequestObject: &runtime.Unknown{Raw: []byte(`{"kind":"Pod"}`)}, ResponseObject: &runtime.Unknown{Raw: []byte(`{"kind":"Status"}`)},
				ResponseStatus: &metav1.Status{Status: "s", Code: code, Reason: "r", Message: "policy-master denies it", Details: &metav1.StatusDetails{Name: "p"}}}
			out, _, _ := c.Cut(ev, sink.Scope{Namespace: "team", Account: "reader", UID: "u1"}, auditrule.RequestResponse)
			s := out.ResponseStatus
			if s.Code != code || s.Status != "s" || s.Reason != "r" || (s.Message == "" && s.Details == nil) != refused || (out.ResponseObject != nil) != (bodies && !refused) || (out.RequestObject != nil) != bodies {
				t.Errorf("%d, %s: %+v, %+v", code, resource, s, out)
			}
			if ev.ResponseStatus.Message == "" || ev.ResponseObject == nil {
				t.Errorf("%d, %s: the event of others was changed", code, resource)
			}
		}
	}
}

// DA-17: a sink without its account is known to be; no sink of the cluster has the name of one.
func TestScopes(t *testing.T) {
	s := &policyv1alpha1.NamespaceAuditSink{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "s", UID: "x"}}
	s.Spec.ServiceAccountName, s.Spec.ServiceAccountUID = "reader", "u1"
	if like := asSink(s); like.Name != "team/s" || like.Namespace != "" || like.UID != "x" {
		t.Errorf("%+v", like)
	}
	for uid, gone := range map[string]bool{"u1": false, "u2": true, "": true} {
		known := accounts{}
		if uid != "" {
			known["team/reader"] = uid
		}
		if got := scopeOf(s, known); got.Gone != gone || got.Namespace != "team" || got.Account != "reader" || got.UID != "u1" {
			t.Errorf("%q: %+v", uid, got)
		}
	}
	if _, found := (noAccounts{}).UID("team", "reader"); found {
		t.Error("an account is found where none is")
	}
}
