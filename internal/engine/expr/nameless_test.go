package expr

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// PO-20: a condition on request.name is one on the name of each object where the request names none.
func TestOfEach(t *testing.T) {
	c, err := New(Config{})
	if err != nil {
		t.Fatal(err)
	}
	program := func(text string) Condition {
		p, issues := c.Compile(text, Options{Kind: When})
		if len(issues) > 0 {
			t.Fatal(issues)
		}
		return p
	}
	object := func(name, generate string) *corev1.ConfigMap {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, GenerateName: generate}}
	}
	deleted := func(o *corev1.ConfigMap) *Data {
		return NewData(DataConfig{Operation: "DELETE", OwnKind: true, Objects: Static{Old: o}})
	}
	created := func(o *corev1.ConfigMap) *Data {
		return NewData(DataConfig{Operation: "CREATE", OwnKind: true, Objects: Static{New: o}})
	}
	for _, tt := range []struct {
		text string
		req  Request
		data *Data
		want bool
	}{
		{`request.name == "db"`, Request{Verb: "deletecollection", Resource: "configmaps"}, deleted(object("db", "")), true},
		{`request.name == "db"`, Request{Verb: "deletecollection", Resource: "configmaps"}, deleted(object("web", "")), false},
		{`[request].exists(r, r.name == "db")`, Request{Verb: "deletecollection", Resource: "configmaps"}, deleted(object("db", "")), true},
		{`request.name == "db"`, Request{Verb: "create", Resource: "configmaps"}, created(object("db", "")), true},
		{`request.name != "db"`, Request{Verb: "create", Resource: "configmaps"}, created(object("db", "")), false},
		// A question without a name, which the server asks when a namespace is deleted, is about objects with names,
		// too.
		{`request.name == "db"`, Request{Verb: "delete", Resource: "configmaps"}, deleted(object("db", "")), true},
		{`request.name != "db"`, Request{Verb: "list", Resource: "configmaps"}, deleted(object("db", "")), false},
	} {
		p := All(program(tt.text), program("operation != 'CONNECT'"))
		each := OfEach(p, &tt.req)
		out := each.Decide(&tt.req, Deny)
		if out.Truth() != Unresolved || each.Type() != TypeNamed || !strings.Contains(each.Text(&tt.req, Deny), tt.text) {
			t.Fatalf("%s: %v, %s: %s", tt.text, out.Truth(), each.Type(), each.Text(&tt.req, Deny))
		}
		got, err := out.Residual().Evaluate(t.Context(), tt.data)
		if err != nil || got != tt.want {
			t.Errorf("%s on %+v: %v, %v", tt.text, tt.req, got, err)
		}
	}
	if _, err := OfEach(program(`request.name == "db"`), &Request{Verb: "create", Resource: "configmaps"}).Evaluate(t.Context(), &Request{Verb: "create", Resource: "configmaps"}, Deny, created(object("", "d"))); err == nil {
		t.Error("an object without a name yet has one")
	}
	// Twins: a request with a name, one that is about no object, a condition on something else.
	for _, tt := range []struct {
		text string
		req  Request
		want Truth
	}{
		{`request.name == "db"`, Request{Verb: "delete", Resource: "configmaps", Name: "db"}, True},
		{`request.name == "db"`, Request{Verb: "deletecollection", Resource: "configmaps", Name: "web"}, False},
		{`request.name == "db"`, Request{Verb: "get"}, False}, // a path
		{`request.user == "alice"`, Request{Verb: "deletecollection", Resource: "configmaps", User: "alice"}, True},
	} {
		if got := OfEach(program(tt.text), &tt.req).Decide(&tt.req, Deny).Truth(); got != tt.want {
			t.Errorf("%s on %+v: %v, want %v", tt.text, tt.req, got, tt.want)
		}
	}
}

// PO-20, CA-19: what is done in another's name to objects that the request does not name is not decided by the empty
// name.
func TestImpersonatedRequestWithoutAName(t *testing.T) {
	c, err := New(Config{})
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		text   string
		req    Request
		want   bool
		failed bool
	}{
		{`impersonatedRequest.name == "db"`, Request{Verb: "deletecollection", Resource: "configmaps"}, false, true},
		{`impersonatedRequest.name != "db"`, Request{Verb: "deletecollection", Resource: "configmaps"}, false, true},
		// Twins: a name; a path, which has none; somebody who asks whether there is one, or does not depend on it.
		{`impersonatedRequest.name != "db"`, Request{Verb: "delete", Resource: "configmaps", Name: "web"}, true, false},
		{`impersonatedRequest.name == ""`, Request{Verb: "get"}, true, false},
		{`has(impersonatedRequest.name) && impersonatedRequest.name != "db"`, Request{Verb: "list", Resource: "configmaps"}, false, false},
		{`impersonatedRequest.name == "db" || impersonatedRequest.verb == "list"`, Request{Verb: "list", Resource: "configmaps"}, true, false},
	} {
		p, issues := c.Compile(tt.text, Options{Kind: When})
		if len(issues) > 0 {
			t.Fatal(issues)
		}
		got, err := p.Evaluate(t.Context(), &Request{Verb: "impersonate", Resource: "users", Name: "bob"}, Deny, NewData(DataConfig{Impersonated: &tt.req}))
		if got != tt.want || (err != nil) != tt.failed {
			t.Errorf("%s on %+v: %v, %v", tt.text, tt.req, got, err)
		}
	}
}
