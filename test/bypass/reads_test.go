package bypass

import (
	"fmt"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/storage"
)

// mine is what a reader may see.
var mine = change{field: "labels", key: "mine", value: "yes"}

// readsUnderCondition: RD-1, RD-4, RD-6, RD-9. Somebody whose only right is to read what is labelled mine=yes learns
// nothing of what is not: no answer, in any form, version, encoding or page, names it, and the answer about its name is
// the one about a name that does not exist. With the label, the same requests show it.
func (w *world) readsUnderCondition(t *testing.T) {
	const system = "reads"
	c, namespace := w.caller("see-mine"), w.settle("see-mine")
	var shown, unseen, streamed, past atomic.Int64
	w.each(func(gr schema.GroupResource, endpoints []endpoint) {
		if everyones[gr.Group+"/"+gr.Resource] != "" {
			return
		}
		hidden, own := w.bait(endpoints, namespace), &prey{missing: "nothing of the kind can be listed"}
		if hidden.missing == "" && hidden.home.has("list") && gr.Group != "policy.proviso.dev" { // a namespace has one container
			own = w.bait(endpoints, namespace, mine)
		}
		for _, e := range endpoints {
			g := hidden.target(e)
			together(slices.Concat(g.reads(), g.slyReads()), func(r request) {
				unseen.Add(1)
				o := w.try(system, c, r)
				w.showsNothing(t, o, hidden)
				if r.verb == "get" {
					w.answeredAsAbsent(t, c, o)
				}
			})
			if own.missing != "" {
				continue
			}
			together(showing(slices.Concat(own.target(e).reads(), own.target(e).socketReads())), func(r request) {
				o := w.try(system, c, r)
				w.showsNothing(t, o, hidden)
				uid, _ := child(own.before, "metadata")["uid"].(string)
				switch {
				case o.succeeded() && strings.Contains(string(o.answer), uid):
					shown.Add(1)
					if o.code == http.StatusSwitchingProtocols {
						streamed.Add(1)
					}
				case r.way == "plain" && e.sub == "" && !elsewhere(gr) && !unnarrowed(o):
					t.Errorf("what may be seen is not shown: %s", o)
				}
			})
		}
		if diff := hidden.touched(); diff != "" {
			t.Errorf("%v was changed by reading: %s", gr, diff)
		}
		if own.missing == "" {
			past.Add(int64(w.readsOfThePast(t, c, endpoints, namespace)))
		}
	})
	if n := w.backend.by("see-mine"); n > 0 {
		t.Errorf("%d reads reached another API server, where nobody evaluates the condition", n)
	}
	w.covered(t, system, []string{"get", "list", "watch"}, everyones)
	t.Logf("%d reads showed what may be seen, %d of them by web sockets, and %d showed it as it was once; %d showed nothing of the rest", shown.Load(), streamed.Load(), past.Load(), unseen.Load())
	if (shown.Load() < 100 || streamed.Load() < 20 || past.Load() < 20) && !w.partial {
		t.Error("almost nothing may be seen: what the hunt tries proves little")
	}
}

// elsewhere tells the resources whose reads are not decided by the generic store, and so fail closed.
func elsewhere(gr schema.GroupResource) bool {
	return gr.Group == "agg.example.com" || gr.Group == "authorization.proviso.dev" || gr.Group == "policy.proviso.dev" || gr.Group == "auditregistration.k8s.io" || gr.Group == "access.proviso.dev" ||
		gr == schema.GroupResource{Resource: "componentstatuses"}
}

// together tries watches at the same time, since each takes a second, and everything else in turn.
func together(all []request, try func(request)) {
	var wg sync.WaitGroup
	for _, r := range all {
		if r.verb == "watch" {
			wg.Go(func() { try(r) })
		} else {
			try(r)
		}
	}
	wg.Wait()
}

// showsNothing fails if an answer tells of an object: its identity, or its name unless the caller said it himself.
func (w *world) showsNothing(t *testing.T, o outcome, p *prey) {
	t.Helper()
	if o.code == 0 || o.code >= 500 {
		t.Errorf("an answer that nobody decided: %s", o)
	}
	if p.missing != "" {
		return
	}
	answer := string(o.answer)
	if uid, _ := child(p.before, "metadata")["uid"].(string); uid != "" && strings.Contains(answer, uid) || o.succeeded() && strings.Contains(answer, fmt.Sprintf(`"name":%q`, p.name)) {
		t.Errorf("an object is shown that may not be seen: %s", o)
	}
	asked, err := url.QueryUnescape(o.path + "?" + o.query)
	if err != nil {
		asked = o.path
	}
	if o.code >= 400 && strings.Contains(answer, p.name) && !strings.Contains(asked, p.name) {
		t.Errorf("an error names an object that may not be seen: %s", o)
	}
	o.path = asked
	if found := leaked(o, p.before); found != "" && o.code != http.StatusNotAcceptable { // which lists media types
		t.Errorf("the refusal shows %q, which is in the object: %s", found, o)
	}
}

// answeredAsAbsent compares the answer about an object that may not be seen with that about a name that does not exist.
func (w *world) answeredAsAbsent(t *testing.T, c *caller, o outcome) {
	t.Helper()
	before, rest, ok := strings.Cut(o.path, "/"+o.endpoint.Resource+"/")
	if !ok {
		return
	}
	name, rest, _ := strings.Cut(rest, "/")
	if decoded, err := url.PathUnescape(name); err == nil {
		name = decoded
	}
	// Nothing that the hunt makes has such a name; it is as long, so that encodings do not differ by that.
	absent := strings.Map(func(r rune) rune {
		if r >= '0' && r <= '9' {
			return 'x'
		}
		return r
	}, name)
	other := o.request
	other.path, other.query = path.Join(before, o.endpoint.Resource, absent, rest), strings.ReplaceAll(o.query, name, absent)
	again := c.do(w.ctx, other)
	same := strings.ReplaceAll(string(again.answer), absent, name) == string(o.answer)
	if strings.HasPrefix(o.header["Accept"], cborType) {
		same = len(again.answer) == len(o.answer) // its maps have no order
	}
	if again.code != o.code || !same {
		t.Errorf("the answer tells whether the object exists: %s\nof a name that does not exist: %s", o, again)
	}
}

// from is a token of a page that begins at a key.
func from(key string) string {
	token, err := storage.EncodeContinue("/"+key, "/", -1)
	if err != nil {
		panic(err) // the key has the prefix
	}
	return token
}

// slyReads are reads that try to get round a narrowed selector, or to learn by the answer.
func (g target) slyReads() []request {
	if g.isConnect() {
		return nil
	}
	var all []request
	see := func(way, verb, path, query, accept string) {
		r := request{endpoint: g.endpoint, way: way, verb: verb, method: "GET", path: path, query: query, sloppy: true}
		if accept != "" {
			r.header = map[string]string{"Accept": accept}
		}
		all = append(all, r)
	}
	const table, partial = ";as=Table;v=v1;g=meta.k8s.io", ";as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
	if g.has("get") {
		item := g.item(g.namespace, g.name)
		for _, accept := range []string{"application/yaml", protobufType, cborType, protobufType + partial, jsonType + partial, cborType + table, "text/plain", "*/*"} {
			see("get as "+accept, "get", item, "", accept)
		}
		for _, query := range []string{"resourceVersion=1", "pretty=true", "fieldSelector=metadata.name%3D" + g.name, "labelSelector=hunted", "includeObject=Object", "limit=1&continue=x", "export=true", "watch=false"} {
			see("get with "+query, "get", item, query, "")
		}
		if g.sub == "" {
			see("get of an encoded name", "get", g.collection("", g.namespace)+"/%"+fmt.Sprintf("%X", g.name[0])+g.name[1:], "", "")
			see("get with a slash", "get", item+"/", "", "")
		}
	}
	if g.has("list") && g.sub == "" {
		collection := g.collection("", g.namespace)
		name, label := url.QueryEscape("metadata.name="+g.name), url.QueryEscape(g.selector)
		for _, query := range []string{
			"labelSelector=" + label, "labelSelector=" + label + "&labelSelector=mine%3Dyes", "labelSelector=mine%3Dyes&labelSelector=" + label,
			"labelSelector=%21mine", "labelSelector=mine%21%3Dyes", "labelSelector=mine+notin+(yes)", "labelSelector=mine+in+(yes,no),mine%21%3Dyes",
			"labelSelector=" + url.QueryEscape(label), "labelSelector=mine%253Dyes", "labelSelector=;" + label, "LabelSelector=" + label, "labelSelector[]=" + label,
			"fieldSelector=" + name, "fieldSelector=" + name + "&fieldSelector=", "fieldSelector=" + url.QueryEscape(name), "fieldSelector=" + url.QueryEscape(`metadata.name\=`+g.name),
			"fieldSelector=" + url.QueryEscape("metadata.name="+g.name+",metadata.name!="), "fieldSelector=metadata.namespace%3D" + g.namespace, "fieldSelector=metadata.uid%21%3Dx",
			"limit=1", "limit=500", "limit=1&resourceVersion=0", "resourceVersion=0", "resourceVersion=1&resourceVersionMatch=Exact", "resourceVersion=1&resourceVersionMatch=NotOlderThan",
			"limit=1&continue=" + from("a\x00"), "limit=1&continue=" + from(g.namespace+"/"+g.name), "shardSelector=x", "pretty=1", "watch=0", "timeoutSeconds=1",
		} {
			see("list with "+query, "list", collection, query, "")
		}
		for _, accept := range []string{jsonType + table, protobufType, cborType, "application/yaml", protobufType + ";as=PartialObjectMetadataList;v=v1;g=meta.k8s.io", cborType + table} {
			see("list as "+accept, "list", collection, "", accept)
		}
		if g.namespaced {
			see("list of all namespaces", "list", g.collection("", ""), "fieldSelector=metadata.namespace%3D"+g.namespace, "")
		}
	}
	if g.has("watch") && g.sub == "" {
		collection, name := g.collection("", g.namespace), url.QueryEscape("metadata.name="+g.name)
		for _, query := range []string{"resourceVersion=0", "resourceVersion=1", "fieldSelector=" + name, "labelSelector=hunted", "labelSelector=%21mine", "allowWatchBookmarks=true",
			"sendInitialEvents=true&allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan&labelSelector=%21mine"} {
			see("watch with "+query, "watch", collection, "watch=1&timeoutSeconds=1&"+query, "")
		}
		see("watch as a table", "watch", collection, "watch=1&timeoutSeconds=1", jsonType+table)
		see("watch by CBOR", "watch", collection, "watch=1&timeoutSeconds=1", "application/cbor-seq")
		see("watch by protobuf", "watch", collection, "watch=1&timeoutSeconds=1", protobufType+";stream=watch")
		all = append(all, g.socketReads()...)
		see("watch of one with its name", "watch", g.collection("watch", g.namespace)+"/"+g.name, "timeoutSeconds=1&resourceVersion=0&fieldSelector="+name, "")
		see("watch of one by its path", "get", g.item(g.namespace, g.name), "watch=true&timeoutSeconds=1", "")
	}
	return all
}

// socketReads are watches over web sockets, which take the connection over.
func (g target) socketReads() []request {
	if g.isConnect() || !g.has("watch") || g.sub != "" {
		return nil
	}
	var all []request
	for _, query := range []string{"", "&resourceVersion=0", "&labelSelector=hunted"} {
		all = append(all, request{endpoint: g.endpoint, way: "web socket" + query, verb: "watch", method: "GET", path: g.collection("", g.namespace), query: "watch=1&timeoutSeconds=1" + query,
			header: map[string]string{"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": "aHVudGVkLWh1bnRlZC1odQ==", "Origin": "https://localhost"}})
	}
	return all
}
