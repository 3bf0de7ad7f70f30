package bypass

import (
	"net/url"
	"strconv"
	"strings"
	"testing"

	"k8s.io/apiserver/pkg/storage"
)

const (
	pastKey = "past.hunt.example.com/text"
	// once and since are what an object says before and after it is relabelled.
	once, since = "as-it-was-once", "as-it-is-since"
)

// readsOfThePast: RD-6. Of two objects, one was hidden and may be seen now, and the other way round. Whichever
// revision is asked for, by lists, tokens of pages and watches, each shows itself only in the state that may be seen.
// It returns how many answers showed something.
func (w *world) readsOfThePast(t *testing.T, c *caller, endpoints []endpoint, namespace string) int {
	t.Helper()
	text := change{field: "annotations", key: pastKey, value: once}
	joins, leaves := w.bait(endpoints, namespace, text), w.bait(endpoints, namespace, text, mine)
	if joins.missing != "" || leaves.missing != "" || !joins.home.has("patch") || !joins.home.has("list") {
		return 0
	}
	then := revision(leaves.before)
	relabel := func(p *prey, value any) string {
		o := w.root.do(w.ctx, request{method: "PATCH", path: p.home.item(namespace, p.name), header: map[string]string{"Content-Type": mergePatch},
			body: encodeJSON(map[string]any{"metadata": map[string]any{"labels": map[string]any{"mine": value}, "annotations": map[string]any{pastKey: since}}})})
		if !o.succeeded() {
			t.Errorf("%s cannot be relabelled, so that little is proven: %s", p.home, o)
		}
		return revision(p.read(p.home))
	}
	relabel(joins, "yes")
	now := relabel(leaves, nil)
	if then == "" || now == "" {
		return 0
	}
	shown := 0
	for _, e := range endpoints {
		if e.sub != "" || !e.has("list") {
			continue
		}
		for _, r := range showing(pastReads(e, namespace, then, now)) {
			o := w.try("reads", c, r)
			answer := string(o.answer)
			if o.succeeded() && strings.Contains(answer, pastKey) {
				shown++
			}
			joined, left := uidOf(joins), uidOf(leaves)
			for _, one := range objectsIn(answer) {
				if strings.Contains(one, joined) && strings.Contains(one, once) || strings.Contains(one, left) && strings.Contains(one, since) {
					t.Errorf("a state is shown that may not be seen: %s", o)
				}
			}
			if o.code >= 400 && (strings.Contains(answer, joined) || strings.Contains(answer, left) || strings.Contains(answer, joins.name) || strings.Contains(answer, leaves.name)) {
				t.Errorf("an error tells of an object: %s", o)
			}
		}
	}
	return shown
}

// pastReads ask for revisions of the past, in the ways in which that can be done.
func pastReads(e endpoint, namespace, then, now string) []request {
	collection := e.collection("", namespace)
	var all []request
	see := func(way, verb, query string) {
		all = append(all, request{endpoint: e, way: way, verb: verb, method: "GET", path: collection, query: query, sloppy: true})
	}
	at, _ := strconv.ParseInt(then, 10, 64)
	for _, rv := range []string{then, now} {
		see("list at exactly a revision", "list", "resourceVersionMatch=Exact&resourceVersion="+rv)
		see("list not older than a revision", "list", "resourceVersionMatch=NotOlderThan&resourceVersion="+rv)
		see("pages at exactly a revision", "list", "limit=1&resourceVersionMatch=Exact&resourceVersion="+rv)
		see("list at a revision by another selector", "list", "labelSelector=%21mine&resourceVersionMatch=Exact&resourceVersion="+rv)
	}
	if token, err := storage.EncodeContinue("/a", "/", at); err == nil {
		see("a token of the past", "list", "limit=500&continue="+url.QueryEscape(token))
	}
	if e.has("watch") {
		see("watch from the past", "watch", "watch=1&timeoutSeconds=1&resourceVersion="+then)
	}
	return all
}

// objectsIn are the pieces of an answer that are about one object each.
func objectsIn(answer string) []string { return strings.Split(answer, `"metadata":{`) }

func uidOf(p *prey) string {
	uid, _ := child(p.before, "metadata")["uid"].(string)
	return uid
}

func revision(object map[string]any) string {
	if object == nil {
		return ""
	}
	rv, _ := child(object, "metadata")["resourceVersion"].(string)
	return rv
}
