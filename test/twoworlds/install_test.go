package twoworlds

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
)

const fenceName = "ours-fence"

// fence is the object that ends a watch: the caller may see it if they may see anything.
func (w *world) fence(kind, ns, tick string) string {
	o := Object{Ref: Ref{kind, ns, fenceName}, Team: "a", Tier: "gold", Level: "low", Value: "fence"}
	body := o.body("fence")
	if kind == "secrets" { // a field that the server only takes in makes every apply a change
		delete(body, "stringData")
	}
	meta, _ := body["metadata"].(object)
	annotations, _ := meta["annotations"].(object)
	if annotations == nil {
		annotations = object{}
		meta["annotations"] = annotations
	}
	annotations["tick"] = tick
	w.present[o.Ref] = true
	out := w.must("PATCH", o.path()+"?fieldManager=admin&force=true", body)
	m, _ := out["metadata"].(object)
	rv, _ := m["resourceVersion"].(string)
	return rv
}

// install makes the cluster of a case, and remembers the resourceVersion of each of its states.
func (w *world) install(c *Case) {
	w.clear()
	objects := c.in(w.second)
	if c.Change.What == changePolicy && w.second {
		w.must("POST", master+"roles", object{"metadata": named("bobs"), "rules": []any{object{"verbs": []any{"get", "update"}, "resourceKinds": []any{"configmaps"}}}})
		w.must("POST", master+"rolebindings", object{"metadata": named("bobs"), "roleRef": object{"namespace": "master", "name": "bobs"}, "userNames": []any{"bob"}})
	}
	if c.Change.What == changeRules {
		w.bobsRules()
	}
	if slices.Contains(c.Caller, binder) {
		w.must("POST", policyHome+"roles", object{"metadata": named("kept"), "rules": json.RawMessage(keptRole)})
		w.must("POST", bindings, object{"metadata": named("kept"), "roleRef": object{"namespace": home, "name": "kept"}, "userNames": []any{"bob"}})
	}
	if aboutRequests(c.Change.What) {
		w.bobAsks(c.Change.What)
	}
	w.states[0] = w.fence("configmaps", other, "0")
	for _, o := range objects {
		w.create(o)
	}
	w.states[1] = w.fence("configmaps", other, "1")
	for _, o := range objects {
		switch {
		case o.Gone:
			w.must("DELETE", o.path(), nil)
		case o.Was != "":
			w.must("PATCH", o.path(), o.body(o.Value))
		}
	}
	w.states[2] = w.fence("configmaps", other, "2")
	for _, o := range objects {
		if o.Ending {
			w.must("DELETE", o.path(), nil)
		}
	}
	if c.Quota > 0 {
		w.limit(c.Quota, objects)
	}
	w.states[3] = w.fence("configmaps", other, "3")
	w.last, w.more = w.states[3], ""
	w.settle()
}

// settle waits for the watch caches: a request that takes any state must not get one of before in one of the worlds.
// A cache that is behind is asked for every 100 ms, so all of them are waited for at once.
func (w *world) settle() {
	var wg sync.WaitGroup
	failed := make(chan any, len(kinds))
	for kind := range kinds {
		wg.Go(func() {
			defer func() {
				if why := recover(); why != nil {
					failed <- why
				}
			}()
			w.caughtUp(kind)
		})
	}
	wg.Wait()
	select {
	case why := <-failed:
		panic(why) // where the case is set up
	default:
	}
}

// caughtUp waits for the watch caches of a kind.
func (w *world) caughtUp(kind string) {
	k := kinds[kind]
	w.must("GET", k.root+"/"+kind, nil)
	if k.also != "" {
		w.must("GET", k.also+"/"+kind, nil)
	}
}

// limit gives the home namespace a quota. No controller runs, so an admin writes what is used.
func (w *world) limit(most int, objects []Object) {
	hard := object{"configmaps": most, "secrets": most}
	used := map[string]int{"configmaps": 1, "secrets": 1} // the fences
	w.fence("configmaps", home, "limited")
	w.fence("secrets", home, "limited")
	for _, o := range objects {
		if _, counted := used[o.Kind]; counted && o.NS == home && !o.Gone {
			used[o.Kind]++
		}
	}
	at := "/api/v1/namespaces/home/resourcequotas"
	body := w.must("POST", at, object{"metadata": named("most"), "spec": object{"hard": hard}})
	body["status"] = object{"hard": hard, "used": used}
	w.must("PUT", at+"/most/status", body)
	w.poll("the quota", func() bool {
		_, q := w.sudo("GET", at+"/most", nil)
		status, _ := q["status"].(object)
		return status["used"] != nil
	})
}

// create makes an object as it was first.
func (w *world) create(o Object) {
	value := o.Value
	if o.Was != "" {
		value = o.Was
		if o.WasTeam != "" {
			o.Team = o.WasTeam
		}
	}
	body := o.body(value)
	if o.Owner != "" {
		if uid := w.uids[o.Kind+"/"+o.NS+"/"+o.Owner]; uid != "" {
			meta, _ := body["metadata"].(object)
			k := kinds[o.Kind]
			meta["ownerReferences"] = []any{object{"apiVersion": k.version, "kind": k.kind, "name": o.Owner, "uid": uid}}
		}
	}
	w.present[o.Ref] = true
	made := w.must("POST", collection(o.Kind, o.NS), body)
	meta, _ := made["metadata"].(object)
	uid, _ := meta["uid"].(string)
	w.uids[o.Kind+"/"+o.NS+"/"+o.Name] = uid
}

// clear removes everything that a case, or a caller, has left.
func (w *world) clear() {
	for _, at := range []string{bindings + "/kept", policyHome + "roles/kept", master + "rolebindings/bobs", master + "roles/bobs", "/api/v1/namespaces/home/resourcequotas/most", requestsHome + "/" + bobs, requestsHome + "/mine"} {
		w.sudo("DELETE", at, nil)
	}
	for ref := range w.present {
		w.remove(ref)
	}
	clear(w.uids)
}

func (w *world) remove(ref Ref) {
	delete(w.present, ref)
	code, stored := w.sudo("DELETE", ref.path()+"?gracePeriodSeconds=0", nil)
	if code == http.StatusNotFound {
		return
	}
	meta, _ := stored["metadata"].(object)
	if meta["finalizers"] != nil {
		w.sudo("PATCH", ref.path(), object{"metadata": object{"finalizers": nil}})
	}
	if ref.Kind == "namespaces" {
		w.sudo("PUT", ref.path()+"/finalize", object{"metadata": named(ref.Name), "spec": object{"finalizers": []any{}}})
	}
	if meta["finalizers"] == nil && ref.Kind != "namespaces" {
		return
	}
	w.poll(ref.path()+" to be gone", func() bool {
		code, _ := w.sudo("GET", ref.path(), nil)
		if code != http.StatusNotFound {
			w.sudo("DELETE", ref.path()+"?gracePeriodSeconds=0", nil)
		}
		return code == http.StatusNotFound
	})
}

// strays notes what a create left behind whose answer does not say a name that can be read.
func (w *world) strays(kind string, touched map[Ref]bool) {
	all, _ := w.must("GET", kinds[kind].root+"/"+kind, nil)["items"].([]any)
	for _, o := range all {
		meta, _ := o.(object)["metadata"].(object)
		name, _ := meta["name"].(string)
		if ns, _ := meta["namespace"].(string); meta["generateName"] != nil {
			at := Ref{kind, ns, name}
			w.present[at], touched[at] = true, true
		}
	}
}

// restore makes objects of the case as they were.
func (w *world) restore(c *Case, touched map[Ref]bool) {
	objects := c.in(w.second)
	if slices.Contains(c.Caller, asker) {
		w.sudo("DELETE", requestsHome+"/mine", nil)
		if c.Change.What == changeRequest && !w.second || !aboutRequests(c.Change.What) { // the caller has taken the name
			w.sudo("DELETE", requestsHome+"/"+bobs, nil)
		}
	}
	for _, ref := range slices.SortedFunc(maps.Keys(touched), func(a, b Ref) int { return strings.Compare(a.path(), b.path()) }) {
		w.remove(ref)
	}
	for _, o := range objects {
		if !touched[o.Ref] || o.Gone {
			continue
		}
		o.Was = ""
		w.create(o)
		if o.Ending {
			w.must("DELETE", o.path(), nil)
		}
	}
}

// disturb changes what the caller may not see, in the second world only.
func (w *world) disturb(c *Case, play int) {
	if !w.second {
		return
	}
	defer func(last, more string) { w.last, w.more = last, more }(w.last, w.more) // they are the caller's
	if c.Change.What == changePolicy {
		bob := fmt.Sprintf("bob-%d", play)
		w.must("PATCH", master+"rolebindings/bobs", object{"userNames": []any{"bob", bob}})
		w.settled(bob)
		return
	}
	if aboutRequests(c.Change.What) {
		user, name := fmt.Sprintf("bob-%d", play), fmt.Sprintf("bobs-%d", play)
		w.groups[user] = []string{askers}
		w.asked(user, home, name, "ask", bobsReason, false)
		w.must("DELETE", requestsHome+"/"+name, nil)
		delete(w.groups, user)
		return
	}
	o := c.object(c.Change.Ref)
	if o == nil || o.Gone || c.Change.What == changeHid || c.Change.What == changeAbsent || c.reaches(*o) {
		return
	}
	w.sudo("PATCH", o.path(), object{"metadata": object{"annotations": object{"disturbed": "yes"}}}) // a find may have deleted it
}

// refOf reads a path: the object, or the collection if it names none.
func refOf(path string) (ref Ref, sub, version string) {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	if len(parts) < 3 {
		return ref, "", ""
	}
	version, parts = parts[1], parts[2:]
	if strings.HasPrefix(path, "/apis/") {
		version, parts = parts[0], parts[1:]
	}
	if len(parts) > 0 && parts[0] == "watch" {
		parts = parts[1:]
	}
	if len(parts) > 2 && parts[0] == "namespaces" && kinds[parts[2]].kind != "" {
		ref.NS, parts = parts[1], parts[2:]
	}
	for i, p := range parts {
		switch i {
		case 0:
			ref.Kind = p
		case 1:
			ref.Name = p
		case 2:
			sub = p
		}
	}
	return ref, sub, version
}
