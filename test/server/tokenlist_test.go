package server

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/client-go/rest"

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
		return len(got.Items) == 2 && got.Items[0].Revoked && got.Items[1].Revoked, nil
	})
}
