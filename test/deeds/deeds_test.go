package deeds

import "testing"

// NI-4: a controller is told by its user agent; only what was changed counts, and only by the server itself.
func TestDeeds(t *testing.T) {
	const agent = "proviso/v1 (linux/amd64) kubernetes/$Format/namespace-controller"
	for _, c := range []struct {
		r    Request
		want string
	}{
		{Request{"system:apiserver", agent, "delete", "apps", "deployments", "", 200}, "namespace-controller delete deployments.apps"},
		{Request{"system:apiserver", "x", "update", "", "namespaces", "status", 200}, "server update namespaces/status"},
		{Request{"ada", agent, "delete", "", "pods", "", 200}, ""},
		{Request{"system:apiserver", agent, "list", "", "pods", "", 200}, ""},
		{Request{"system:apiserver", agent, "delete", "", "pods", "", 404}, ""},
		{Request{"system:apiserver", agent, "delete", "", "pods", "", 0}, ""},
		{Request{"system:apiserver", agent, "delete", "", "", "", 200}, ""},
	} {
		if got := c.r.Deed(); got != c.want {
			t.Errorf("%+v: %q, want %q", c.r, got, c.want)
		}
	}
	list, err := Read("../../docs/explanation/effects.md")
	if err != nil || len(list) < 10 {
		t.Fatalf("the list has %d rows: %v", len(list), err)
	}
	if !list.Has("namespace-controller deletecollection widgets.example.com") || list.Has("namespace-controller create pods") || list.Has("nobody delete pods") {
		t.Error("not as the page has it")
	}
	if left := (List{"a delete *": true, "b update x": true, "server update y": true}).NotDone([]string{"a delete pods"}); len(left) != 1 || left[0] != "b update x" {
		t.Errorf("left: %v", left)
	}
}
