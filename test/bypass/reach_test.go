package bypass

import (
	"fmt"
	"net/url"
)

func (g target) removal(way, verb, path, query, contentType string, body []byte) request {
	r := request{endpoint: g.endpoint, way: way, verb: verb, method: "DELETE", path: path, query: query, body: body}
	if contentType != "" {
		r.header = map[string]string{"Content-Type": contentType}
	}
	return r
}

// removals are all the ways to make an object go away. The last ones really do.
func (g target) removals() []request {
	var all []request
	if g.isConnect() {
		return nil
	}
	orphan := map[string]any{"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Orphan"}
	if g.has("delete") {
		item := g.item(g.namespace, g.name)
		all = append(all,
			g.removal("dry run", "delete", item, "dryRun=All", "", nil),
			sloppy(g.removal("unsafe", "delete", item, "ignoreStoreReadErrorWithClusterBreakingPotential=true", "", nil)),
			g.removal("options by CBOR", "delete", item, "", cborType, encodeCBOR(orphan)),
			g.removal("plain", "delete", item, "", "", nil),
		)
	}
	if g.has("deletecollection") {
		// Labels would tell what other objects contain, and need a right to list.
		selected := "fieldSelector=" + url.QueryEscape("metadata.name="+g.name)
		collection := g.collection("", g.namespace)
		all = append(all,
			g.removal("dry run", "deletecollection", collection, selected+"&dryRun=All", "", nil),
			g.removal("selector and options", "deletecollection", collection, selected, jsonType, encodeJSON(orphan)),
		)
	}
	return all
}

// reads are all the ways to see something of an object.
func (g target) reads() []request {
	var all []request
	if g.isConnect() {
		return nil
	}
	see := func(way, verb, path, query string) {
		all = append(all, request{endpoint: g.endpoint, way: way, verb: verb, method: "GET", path: path, query: query})
	}
	selected := "labelSelector=" + url.QueryEscape(g.selector)
	if g.has("get") {
		item := g.item(g.namespace, g.name)
		see("plain", "get", item, "")
		see("cache", "get", item, "resourceVersion=0")
		all = append(all, request{endpoint: g.endpoint, way: "table", verb: "get", method: "GET", path: item,
			header: map[string]string{"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}})
	}
	if g.has("list") && g.sub == "" {
		for _, namespace := range []string{g.namespace, ""} {
			collection := g.collection("", namespace)
			see("plain", "list", collection, "")
			see("chunk", "list", collection, "limit=1&"+selected)
			see("continuation", "list", collection, "limit=1&continue=eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6MSwic3RhcnQiOiJhXHUwMDAwIn0")
			if !g.namespaced {
				break
			}
		}
		all = append(all, request{endpoint: g.endpoint, way: "metadata", verb: "list", method: "GET", path: g.collection("", g.namespace),
			header: map[string]string{"Accept": "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"}})
	}
	if g.has("watch") && g.sub == "" {
		collection := g.collection("", g.namespace)
		see("plain", "watch", collection, "watch=true&timeoutSeconds=1")
		see("watch-list", "watch", collection, "watch=true&sendInitialEvents=true&allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan&timeoutSeconds=1")
		see("old path", "watch", g.collection("watch", g.namespace), "timeoutSeconds=1")
		see("old path of one", "watch", g.collection("watch", g.namespace)+"/"+g.name, "timeoutSeconds=1")
	}
	return all
}

// connects are all the ways to open a connection, or to proxy through one.
func (g target) connects() []request {
	if !g.isConnect() {
		return nil
	}
	methods := map[string]string{"get": "GET", "create": "POST", "update": "PUT", "patch": "PATCH", "delete": "DELETE"}
	var all []request
	add := func(way, verb, method, below string) {
		all = append(all, request{endpoint: g.endpoint, way: way, verb: verb, method: method, path: g.item(g.namespace, g.name) + below, query: "command=ls&ports=80"})
	}
	for _, verb := range g.verbs {
		method := methods[verb]
		if method == "" {
			method = fmt.Sprintf("UNKNOWN-%s", verb)
		}
		add(method, verb, method, "")
		if g.sub == "proxy" {
			add(method+" of a path", verb, method, "/metrics/cadvisor")
			add(method+" of an unclean path", verb, method, "/x/%2e%2e/metrics")
			all[len(all)-1].sloppy = true
		}
	}
	if g.sub == "proxy" {
		add("HEAD", "get", "HEAD", "/healthz")
		add("OPTIONS", "", "OPTIONS", "/healthz")
		all[len(all)-1].sloppy = true
	}
	return all
}
