package registry

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
)

// seen is an event of a watch.
type seen struct {
	Type   string
	Object struct {
		Code     int
		Metadata struct {
			Name, Namespace, ResourceVersion string
			Labels, Annotations              map[string]string
		}
	}
}

func (e seen) String() string {
	return e.Type + " " + e.Object.Metadata.Namespace + "/" + e.Object.Metadata.Name
}

// stream is a watch that a test reads from.
type stream struct {
	t      *testing.T
	events *json.Decoder
}

func (s *api) watch(t *testing.T, path string) stream {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 4*time.Minute)
	t.Cleanup(cancel)
	req, err := http.NewRequestWithContext(ctx, "GET", s.url+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = resp.Body.Close() })
	return stream{t, json.NewDecoder(resp.Body)}
}

// next is the next event that is no bookmark, and the bookmark is remembered.
func (w stream) next(bookmark *string) seen {
	w.t.Helper()
	for {
		var e seen
		if err := w.events.Decode(&e); err != nil {
			w.t.Fatal(err)
		}
		if e.Type != "BOOKMARK" {
			return e
		}
		if bookmark != nil {
			*bookmark = e.Object.Metadata.ResourceVersion
		}
	}
}

func (w stream) expect(want ...string) {
	w.t.Helper()
	for _, want := range want {
		if got := w.next(nil); got.String() != want {
			w.t.Fatalf("event %s, want %s", got, want)
		}
	}
}

func versionOf(a answer) string { return fmt.Sprint(a.at("metadata", "resourceVersion")) }

// PO-4: roles and role bindings can be watched like objects of their own: from now, from a version, by selector, in one
// namespace or in all. Changes of other entries of the container are no events.
func TestViewsCanBeWatched(t *testing.T) {
	s := serve(t, &world{})
	s.containers("hammer", "nail", "master")
	s.must("POST", rolesIn("hammer"), roleYAML("old", readPods))
	start := versionOf(s.must("GET", rolesIn("hammer"), nil))

	from := s.watch(t, rolesIn("hammer")+"?watch=true&resourceVersion="+start)
	synthetic := s.watch(t, authzAPI+"/roles?watch=true")
	named := s.watch(t, rolesIn("hammer")+"?watch=true&fieldSelector=metadata.name%3Dreader&resourceVersion="+start)
	labelled := s.watch(t, authzAPI+"/roles?watch=true&labelSelector=a%3Db&resourceVersion="+start)
	bindings := s.watch(t, bindingsIn("hammer")+"?watch=true&resourceVersion="+start)

	s.must("POST", rolesIn("hammer"), roleYAML("reader", readPods))
	s.must("POST", rolesIn("nail"), roleYAML("reader", readPods))
	s.must("PATCH", rolesIn("hammer")+"/old", `{"metadata":{"labels":{"a":"b"}}}`, "Content-Type", mergePatch)
	s.must("POST", bindingsIn("hammer"), bindingYAML("readers", "hammer", "reader", "edgar"))
	s.must("PATCH", rolesIn("hammer")+"/old", `{"metadata":{"labels":null}}`, "Content-Type", mergePatch)
	s.must("DELETE", bindingsIn("hammer")+"/readers", nil)
	s.must("DELETE", rolesIn("hammer")+"/reader", nil)

	// A role is marked before it is removed.
	from.expect("ADDED hammer/reader", "MODIFIED hammer/old", "MODIFIED hammer/old", "MODIFIED hammer/reader", "DELETED hammer/reader")
	synthetic.expect("ADDED hammer/old", "ADDED hammer/reader", "ADDED nail/reader")
	named.expect("ADDED hammer/reader", "MODIFIED hammer/reader", "DELETED hammer/reader")
	labelled.expect("ADDED hammer/old", "DELETED hammer/old")
	bindings.expect("ADDED hammer/readers", "DELETED hammer/readers")

	// From the version of an entry, which is older than its change, that change comes again; from that of the list, it
	// does not.
	role := s.must("GET", rolesIn("hammer")+"/old", nil)
	again := s.watch(t, rolesIn("hammer")+"?watch=true&resourceVersion="+versionOf(role))
	again.expect("MODIFIED hammer/old")
	now := versionOf(s.must("GET", rolesIn("hammer"), nil))
	after := s.watch(t, rolesIn("hammer")+"?watch=true&resourceVersion="+now)
	s.must("DELETE", rolesIn("hammer")+"/old", nil)
	after.expect("MODIFIED hammer/old", "DELETED hammer/old")
}

// PO-4: an informer lists by watching, is told where the beginning ends, and resumes from a bookmark without a gap or a
// repetition.
func TestViewWatchBookmarks(t *testing.T) {
	s := serve(t, &world{})
	s.containers("hammer")
	s.must("POST", rolesIn("hammer"), roleYAML("one", readPods))
	list := s.watch(t, rolesIn("hammer")+"?watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true")
	list.expect("ADDED hammer/one")
	var end seen
	if err := list.events.Decode(&end); err != nil || end.Type != "BOOKMARK" || end.Object.Metadata.Annotations["k8s.io/initial-events-end"] != "true" {
		t.Fatalf("%v: %+v", err, end)
	}
	s.must("PATCH", rolesIn("hammer")+"/one", `{"metadata":{"labels":{"a":"b"}}}`, "Content-Type", mergePatch)
	list.expect("MODIFIED hammer/one")
	var mark seen
	if err := list.events.Decode(&mark); err != nil || mark.Type != "BOOKMARK" {
		t.Fatalf("%v: %+v", err, mark)
	}
	resumed := s.watch(t, rolesIn("hammer")+"?watch=true&resourceVersion="+mark.Object.Metadata.ResourceVersion)
	s.must("POST", rolesIn("hammer"), roleYAML("two", readPods))
	resumed.expect("ADDED hammer/two")

	// The object of an event can be written back: its version is its own.
	other := s.watch(t, rolesIn("hammer")+"?watch=true&resourceVersion="+mark.Object.Metadata.ResourceVersion)
	event := other.next(nil)
	body := s.must("GET", rolesIn("hammer")+"/two", nil)
	if event.Object.Metadata.ResourceVersion != versionOf(body) {
		t.Errorf("the event has version %s, the object %s", event.Object.Metadata.ResourceVersion, versionOf(body))
	}
}

// PO-5: with kubectl's propagation policy a bound role is marked, says what it waits for, cannot be bound again, and
// goes with its last binding, so that a file with both can be deleted in its order. Without it, the deletion is refused
// (TestBoundRolesStay).
func TestBoundRoleGoesWithItsLastBinding(t *testing.T) {
	s := serve(t, &world{})
	s.containers("hammer", "nail", "master")
	const background = `{kind: DeleteOptions, apiVersion: v1, propagationPolicy: Background}`
	s.must("POST", rolesIn("master"), roleYAML("view", readPods))
	s.must("POST", rolesIn("hammer"), roleYAML("reader", readPods))
	s.must("POST", bindingsIn("hammer"), bindingYAML("readers", "hammer", "reader", "edgar, clark"))
	s.must("POST", bindingsIn("hammer"), bindingYAML("viewers", "master", "view", "edgar"))
	s.must("POST", bindingsIn("nail"), bindingYAML("viewers", "master", "view", "edgar"))

	s.must("DELETE", rolesIn("hammer")+"/reader", `{kind: DeleteOptions, apiVersion: v1, propagationPolicy: Background, dryRun: [All]}`)
	if s.must("GET", rolesIn("hammer")+"/reader", nil).at("metadata", "deletionTimestamp") != nil {
		t.Error("a dry run marked the role")
	}
	for range 2 { // again changes nothing
		got := s.must("DELETE", rolesIn("hammer")+"/reader", background)
		if got.at("metadata", "deletionTimestamp") == nil || len(got.warnings) != 1 || !strings.Contains(got.warnings[0], "hammer/readers") {
			t.Errorf("%v %q", got.body, got.warnings)
		}
	}
	s.refuse(422, "POST", bindingsIn("hammer"), bindingYAML("more", "hammer", "reader", "edgar"), "being deleted")
	s.must("PATCH", bindingsIn("hammer")+"/readers", `{"userNames":["edgar"]}`, "Content-Type", mergePatch) // revoking stays possible
	s.must("DELETE", bindingsIn("hammer")+"/readers", background)
	s.refuse(404, "GET", rolesIn("hammer")+"/reader", nil)

	// One that is bound elsewhere waits for all of them; orphaning is refused.
	s.refuse(409, "DELETE", rolesIn("master")+"/view", `{kind: DeleteOptions, apiVersion: v1, propagationPolicy: Orphan}`, "hammer/viewers", "nail/viewers")
	s.must("DELETE", rolesIn("master")+"/view", background)
	s.must("DELETE", bindingsIn("hammer")+"/viewers", nil)
	if s.must("GET", rolesIn("master")+"/view", nil).at("metadata", "deletionTimestamp") == nil {
		t.Error("the mark is lost")
	}
	s.must("DELETE", bindingsIn("nail")+"/viewers", nil)
	s.refuse(404, "GET", rolesIn("master")+"/view", nil)

	// Bindings that go at the same moment, through two servers, take it with them.
	servers := []*api{s, serveAt(t, &world{}, s.prefix)}
	for i := range runs(3) {
		role := fmt.Sprintf("race-%d", i)
		s.must("POST", rolesIn("hammer"), roleYAML(role, readPods))
		for w := range servers {
			s.must("POST", bindingsIn("hammer"), bindingYAML(fmt.Sprintf("%s-%d", role, w), "hammer", role, "edgar"))
		}
		s.must("DELETE", rolesIn("hammer")+"/"+role, background)
		inParallel(t, len(servers), func(w int) error {
			got, err := servers[w].try("DELETE", fmt.Sprintf("%s/%s-%d", bindingsIn("hammer"), role, w), nil)
			if err == nil && got.code != 200 {
				err = fmt.Errorf("%d %s", got.code, got.message())
			}
			return err
		})
		s.refuse(404, "GET", rolesIn("hammer")+"/"+role, nil)
	}
}
