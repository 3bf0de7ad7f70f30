package server

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	access "proviso.dev/proviso/api/access/v1alpha1"
	"proviso.dev/proviso/internal/features/tokens"
)

// TestTokensAreListed: callers see their own tokens, others' take a right, and nobody sees a token (TK-6, TK-7).
func TestTokensAreListed(t *testing.T) {
	w := tokenWorld{t, narrowed.get(t)}
	path := rbacv1.PolicyRule{Verbs: []string{"get"}, NonResourceURLs: []string{tokens.ListPath}}
	lena := w.can("tk-lena", path)
	luis := w.can("tk-luis", path, rbacv1.PolicyRule{Verbs: []string{"list"}, APIGroups: []string{"access.proviso.dev"}, Resources: []string{"narrowedtokens"}})
	rules := `"rules":[{"verbs":["get"],"resourceKinds":["configmaps"]},{"verbs":["create"],"resourceKinds":["narrowedtokens.access.proviso.dev"]}]`
	first, one := w.issue(lena, "", `{"description":"first",`+rules+`}`)
	second, two := w.issue(lena, first, `{"description":"second",`+rules+`}`)
	list := func(as *rest.Config, query string) (out tokens.List, a answer) {
		t.Helper()
		a = w.send(as, "", "GET", tokens.ListPath+query, "")
		if err := json.Unmarshal([]byte(a.message), &out); a.code == http.StatusOK && err != nil {
			t.Fatal(err)
		}
		for _, secret := range []string{first, second} {
			if strings.Contains(a.message, secret[strings.LastIndex(secret, ".")+1:]) {
				t.Error("a list shows a token")
			}
		}
		return out, a
	}
	for who, query := range map[*rest.Config]string{lena: "", luis: "?user=tk-lena"} {
		got, a := list(who, query)
		if len(got.Items) != 2 || got.Items[0].ID != one.ID && got.Items[1].ID != one.ID {
			t.Fatalf("%d %s", a.code, a.message)
		}
		for _, i := range got.Items {
			want, from := []string{"first"}, ""
			if i.ID == two.ID {
				want, from = []string{"first", "second"}, one.ID
			}
			if i.User != "tk-lena" || i.Revoked || !slices.Equal(i.Links, want) || i.From != from || i.Expires.Unix() != one.ExpirationTimestamp.Unix() {
				t.Errorf("%+v", i)
			}
		}
	}
	if got, a := list(luis, ""); a.code != http.StatusOK || len(got.Items) != 0 {
		t.Errorf("his own: %d %s", a.code, a.message)
	}
	if got, _ := list(luis, "?all=true"); !slices.ContainsFunc(got.Items, func(i tokens.Issued) bool { return i.ID == two.ID }) {
		t.Errorf("all: %+v", got)
	}
	for query, code := range map[string]int{"?user=tk-luis": 403, "?all=true": 403, "?all=true&user=tk-lena": 400} {
		if _, a := list(lena, query); a.code != code {
			t.Errorf("%s: %d %s", query, a.code, a.message)
		}
	}
	w.expect("with a token that does not name the path", w.send(lena, first, "GET", tokens.ListPath, ""), http.StatusForbidden, "your token does not allow it")
	w.expect("to write", w.send(luis, "", "POST", tokens.ListPath, "{}"), http.StatusForbidden, "")

	w.expect("revocation", w.send(lena, first, "POST", "/apis/access.proviso.dev/v1alpha1/tokenrevocations",
		`{"apiVersion":"access.proviso.dev/v1alpha1","kind":"TokenRevocation","metadata":{"generateName":"x-"},"spec":{"tokenIDs":["`+one.ID+`"]}}`), http.StatusCreated, "")
	w.s.await("the revocation to be listed", func() (bool, error) {
		got, _ := list(lena, "")
		return len(got.Items) == 2 && got.Items[0].Revoked && got.Items[1].Revoked && len(got.Revocations) == 1 && slices.Equal(got.Revocations[0].TokenIDs, []string{one.ID}), nil
	})
	if got, _ := list(luis, ""); len(got.Revocations) != 0 {
		t.Errorf("his own list has revocations of others: %+v", got.Revocations)
	}
}

// TestTokensAndGrants: what was granted by an access request counts for a token that includes grants, within its links
// and until the grant ends, and for no other token (TK-3).
func TestTokensAndGrants(t *testing.T) {
	s := narrowed.get(t)
	a := newAccessWorld(t, s, "ac-tk")
	a.rule(t, "ac-tk", nil)
	w := tokenWorld{t, s}
	w.can("actk-alice")
	alice := a.oncall("actk-alice")
	rules := `"rules":[{"verbs":["get","list"],"resourceKinds":["configmaps"]},{"verbs":["create"],"resourceKinds":["narrowedtokens.access.proviso.dev"]}]`
	made, err := a.ask(t, alice, "ac-tk", nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := a.decide(t.Context(), a.lead("actk-bob"), made, access.Approve); err != nil {
		t.Fatal(err)
	}
	const one = "/api/v1/namespaces/ac-tk/configmaps/one"
	s.await("the grant", func() (bool, error) { return w.send(alice, "", "GET", one, "").code == http.StatusOK, nil })
	without, _ := w.issue(alice, "", `{`+rules+`}`)
	with, _ := w.issue(alice, "", `{"includeGrants":true,`+rules+`}`)
	w.expect("a token without grants", w.send(alice, without, "GET", one, ""), http.StatusForbidden, "cannot get")
	w.expect("one that includes them", w.send(alice, with, "GET", one, ""), http.StatusOK, `"one"`)
	w.expect("within its links", w.send(alice, with, "GET", "/api/v1/namespaces/ac-tk/services", ""), http.StatusForbidden, "your token does not allow it")
	w.expect("within its links, to write", w.send(alice, with, "DELETE", one, ""), http.StatusForbidden, "your token does not allow it")
	further, _ := w.issue(alice, without, `{"includeGrants":true,`+rules+`}`)
	w.expect("asked for with one that has none", w.send(alice, further, "GET", one, ""), http.StatusForbidden, "cannot get")
	if _, err := a.requests(alice).Revoke(t.Context(), made.Name, &access.AccessDecision{RequestUID: made.UID}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	s.await("the end", func() (bool, error) { return w.send(alice, with, "GET", one, "").code == http.StatusForbidden, nil })
}
