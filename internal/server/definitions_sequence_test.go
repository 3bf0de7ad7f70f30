package server

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"k8s.io/client-go/rest"
)

// TestDeclarationsInAnySequence: a CRD is written by one command after another, and by several managers (FP-3).
func TestDeclarationsInAnySequence(t *testing.T) {
	s := start(t)
	const name = "rockets.example.com"
	shows := func(t *testing.T, want string) {
		t.Helper()
		out, _, ok := s.kubectlStreams("", "get", "crd", name, "-o", "json")
		var object map[string]any
		if err := json.Unmarshal([]byte(out), &object); err != nil || !ok {
			t.Fatalf("%v %s", err, out)
		}
		if got := fire(t, object); got != want {
			t.Errorf("shows %s, want %s", got, want)
		}
	}
	does := func(t *testing.T, stdin string, args ...string) string {
		t.Helper()
		out, ok := s.kubectl(stdin, args...)
		if !ok {
			t.Errorf("kubectl %s: %s", strings.Join(args, " "), out)
		}
		return out
	}
	verb := func(v string) string { return rocketFile("verb: example.com/"+v, "exclusive: true") }
	want := func(v string) string { return `{"exclusive":true,"verb":"example.com/` + v + `"}` }

	t.Run("client, server, client", func(t *testing.T) {
		does(t, verb("one"), "apply", "-f", "-")
		does(t, verb("one"), "apply", "--server-side", "-f", "-")
		shows(t, want("one"))
		does(t, verb("two"), "apply", "-f", "-")
		shows(t, want("two"))
		if out := does(t, verb("two"), "apply", "-f", "-"); !strings.Contains(out, "unchanged") {
			t.Error(out)
		}
		does(t, verb("three"), "apply", "--server-side", "-f", "-")
		shows(t, want("three"))
		does(t, "", "patch", "crd", name, "--subresource=status", "--type=merge", "-p", `{"status":{"storedVersions":["v1"]}}`)
		does(t, verb("four"), "apply", "-f", "-")
		shows(t, want("four"))
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
		shows(t, want("four"))
	})
	t.Run("replace, edit and apply again", func(t *testing.T) {
		does(t, verb("six"), "replace", "-f", "-")
		shows(t, want("six"))
		does(t, verb("seven"), "apply", "-f", "-")
		shows(t, want("seven"))
		does(t, verb("eight"), "apply", "--server-side", "--force-conflicts", "-f", "-")
		does(t, "", "patch", "crd", name, "--type=json", "-p", `[{"op":"replace","path":"`+firing+`x-kubernetes-permission-verb","value":"example.com/nine"}]`)
		shows(t, want("nine"))
		does(t, verb("ten"), "apply", "-f", "-")
		shows(t, want("ten"))
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
