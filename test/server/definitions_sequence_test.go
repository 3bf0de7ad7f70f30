package server

import (
	"net/http"
	"strings"
	"testing"

	"k8s.io/client-go/rest"
)

// TestDeclarationsInAnySequence: a CRD is written by one command after another, and by several managers (FP-3).
func TestDeclarationsInAnySequence(t *testing.T) {
	s := plain.get(t)
	t.Cleanup(func() { s.withdraw(t, "rockets.example.com") })
	const name = "rockets.example.com"
	verb := func(v string) string { return rocketFile("verb: example.com/"+v, "exclusive: true") }
	want := func(v string) string { return `{"exclusive":true,"verb":"example.com/` + v + `"}` }

	t.Run("client, server, client", func(t *testing.T) {
		s.does(t, verb("one"), "apply", "-f", "-")
		s.does(t, verb("one"), "apply", "--server-side", "-f", "-")
		s.shows(t, name, want("one"))
		s.does(t, verb("two"), "apply", "-f", "-")
		s.shows(t, name, want("two"))
		if out := s.does(t, verb("two"), "apply", "-f", "-"); !strings.Contains(out, "unchanged") {
			t.Error(out)
		}
		s.does(t, verb("three"), "apply", "--server-side", "-f", "-")
		s.shows(t, name, want("three"))
		s.does(t, "", "patch", "crd", name, "--subresource=status", "--type=merge", "-p", `{"status":{"storedVersions":["v1"]}}`)
		s.does(t, verb("four"), "apply", "-f", "-")
		s.shows(t, name, want("four"))
	})
	t.Run("diff", func(t *testing.T) {
		for _, mode := range []string{"--server-side=false", "--server-side=true"} {
			if out, ok := s.kubectl(verb("four"), "diff", mode, "-f", "-"); !ok || strings.Contains(out, "x-kubernetes") {
				t.Errorf("%s, nothing changed: %v %s", mode, ok, out)
			}
			out, ok := s.kubectl(verb("five"), "diff", mode, "-f", "-")
			if ok || !strings.Contains(out, "-                x-kubernetes-permission-verb: example.com/four") || !strings.Contains(out, "+                x-kubernetes-permission-verb: example.com/five") {
				t.Errorf("%s: %v %s", mode, ok, out)
			}
		}
		s.shows(t, name, want("four"))
	})
	t.Run("replace, edit and apply again", func(t *testing.T) {
		s.does(t, verb("six"), "replace", "-f", "-")
		s.shows(t, name, want("six"))
		s.does(t, verb("seven"), "apply", "-f", "-")
		s.shows(t, name, want("seven"))
		s.does(t, verb("eight"), "apply", "--server-side", "--force-conflicts", "-f", "-")
		s.does(t, "", "patch", "crd", name, "--type=json", "-p", `[{"op":"replace","path":"`+firing+`x-kubernetes-permission-verb","value":"example.com/nine"}]`)
		s.shows(t, name, want("nine"))
		s.does(t, verb("ten"), "apply", "-f", "-")
		s.shows(t, name, want("ten"))
	})
	t.Run("CBOR is refused by the server", func(t *testing.T) {
		client, err := rest.HTTPClientFor(s.admin)
		if err != nil {
			t.Fatal(err)
		}
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.admin.Host+"/apis/apiextensions.k8s.io/v1/customresourcedefinitions", strings.NewReader("\xd9\xd9\xf7\xa0"))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/cbor")
		resp, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusUnsupportedMediaType { // the gate is off
			t.Error(resp.Status)
		}
	})
}
