package bypass

import (
	"bytes"
	"fmt"
	"net/url"
)

// target is what requests of one caller to one endpoint are about.
type target struct {
	endpoint
	namespace string
	// name is that of the object that is there; fresh gives names of objects that are not.
	name  string
	fresh func() map[string]any
	// applied is what an admin applied to make the object, in this endpoint's version.
	applied map[string]any
	// stored is what is there now, as this endpoint shows it; nil if it shows nothing.
	stored map[string]any
	// selector selects the object.
	selector string
}

// writes are all the ways to write an object with a change made to it.
func (g target) writes(c change) []request {
	var all []request
	if g.isConnect() {
		return nil
	}
	if g.has("create") {
		all = append(all, g.creates(c)...)
	}
	if g.has("update") {
		all = append(all, g.updates(c)...)
	}
	if g.has("patch") {
		all = append(all, g.patches(c)...)
	}
	return all
}

// manager is in the name of the field manager of the admin, whose fields an apply by the same name may remove.
const manager = "fieldManager=hunt"

func (g target) post(way, contentType, query string, body []byte) request {
	r := request{endpoint: g.endpoint, way: way, verb: "create", method: "POST", query: query, body: body, header: map[string]string{"Content-Type": contentType}}
	r.path = g.collection("", g.namespace)
	if g.sub != "" {
		r.path = g.item(g.namespace, g.name)
	}
	return r
}

func (g target) creates(c change) []request {
	body := func() map[string]any { return c.done(g.create()) }
	all := []request{
		g.post("JSON", jsonType, "", encodeJSON(body())),
		g.post("dry run", jsonType, "dryRun=All", encodeJSON(body())),
		g.post("CBOR", cborType, "", encodeCBOR(body())),
	}
	generated := body()
	meta := child(generated, "metadata")
	if g.sub == "" {
		delete(meta, "name")
		meta["generateName"] = g.namespace + "-generated-"
		all = append(all, sloppy(g.post("generateName", jsonType, "", encodeJSON(generated))))
	}
	if raw := encodeProtobuf(g.endpoint, body()); raw != nil {
		all = append(all, g.post("protobuf", protobufType, "", raw))
	}
	before := g.create()
	return append(all, g.broken("POST", before, c.done(before))...)
}

// create is the body of a create request.
func (g target) create() map[string]any {
	if g.sub == "" {
		return g.fresh()
	}
	return g.other(g.name)
}

// other is the body for a subresource of another kind than its resource.
func (g target) other(name string) map[string]any {
	out := map[string]any{}
	if text, ok := otherBodies[g.kind.Kind]; ok {
		out = parse(text)
	}
	out["apiVersion"], out["kind"] = g.kind.GroupVersion().String(), g.kind.Kind
	meta := child(out, "metadata")
	meta["name"] = name
	if g.namespaced {
		meta["namespace"] = g.namespace
	}
	return out
}

// broken are bodies that are not what they seem.
func (g target) broken(method string, before, after map[string]any) []request {
	attempt := func(way, query string, body []byte) request {
		if method == "POST" {
			return sloppy(g.post(way, jsonType, query, body))
		}
		return sloppy(g.put(way, jsonType, query, body))
	}
	unknown := clone(after)
	unknown["unknown"] = map[string]any{"labels": "x"}
	child(unknown, "metadata")["Labels"] = map[string]any{"case": "differs"}
	raw := encodeJSON(after)
	return []request{
		attempt("duplicate fields", "", duplicated(before, after)),
		attempt("duplicate fields the other way round", "", duplicated(after, before)),
		attempt("unknown fields", "fieldValidation=Ignore", encodeJSON(unknown)),
		attempt("a truncated body", "", raw[:len(raw)-2]),
		attempt("two bodies", "", append(bytes.Clone(raw), raw...)),
	}
}

func (g target) put(way, contentType, query string, body []byte) request {
	return request{endpoint: g.endpoint, way: way, verb: "update", method: "PUT", path: g.item(g.namespace, g.name), query: query, body: body,
		header: map[string]string{"Content-Type": contentType}}
}

func (g target) updates(c change) []request {
	if g.stored == nil {
		object := c.done(g.create())
		return []request{sloppy(g.put("JSON, nothing there", jsonType, "", encodeJSON(object)))}
	}
	after := c.done(g.stored)
	all := []request{
		g.put("JSON", jsonType, "", encodeJSON(after)),
		g.put("dry run", jsonType, "dryRun=All", encodeJSON(after)),
		g.put("CBOR", cborType, "", encodeCBOR(after)),
	}
	if raw := encodeProtobuf(g.endpoint, after); raw != nil {
		all = append(all, g.put("protobuf", protobufType, "", raw))
	}
	unversioned := clone(after)
	delete(child(unversioned, "metadata"), "resourceVersion")
	delete(child(unversioned, "metadata"), "uid")
	all = append(all, sloppy(g.put("JSON without resourceVersion", jsonType, "", encodeJSON(unversioned))))
	if g.sub == "" {
		object := c.done(g.fresh())
		create := sloppy(g.put("JSON that creates", jsonType, "", encodeJSON(object)))
		create.path = g.item(g.namespace, nameOf(object))
		all = append(all, create)
	}
	return append(all, g.broken("PUT", g.stored, after)...)
}

func (g target) patch(way, contentType, query string, body []byte) request {
	return request{endpoint: g.endpoint, way: way, verb: "patch", method: "PATCH", path: g.item(g.namespace, g.name), query: query, body: body,
		header: map[string]string{"Content-Type": contentType}}
}

func (g target) patches(c change) []request {
	config := c.done(g.config())
	all := []request{
		g.patch("merge patch", mergePatch, "", encodeJSON(c.merge())),
		g.patch("dry run", mergePatch, "dryRun=All", encodeJSON(c.merge())),
		sloppy(g.patch("strategic merge patch", strategic, "", encodeJSON(c.merge()))), // custom resources have none
		g.patch("apply", applyYAML, manager+"&force=true", encodeJSON(config)),
		g.patch("apply by CBOR", applyCBOR, manager+"&force=true", encodeCBOR(config)),
		sloppy(g.patch("merge patch that breaks it", mergePatch, "", []byte(`{"spec": {"nodeName": "a b", "replicas": -1, "type": "x"}}`))),
		sloppy(g.patch("a truncated merge patch", mergePatch, "", bytes.TrimSuffix(encodeJSON(c.merge()), []byte("}")))),
	}
	if g.stored != nil {
		all = append(all, g.patch("JSON patch", jsonPatch, "", encodeJSON(c.operations(g.stored))))
		copied := []any{
			map[string]any{"op": "copy", "from": "/metadata", "path": "/metadata/annotations"},
			map[string]any{"op": "remove", "path": "/metadata/annotations"},
		}
		all = append(all, sloppy(g.patch("JSON patch with copy", jsonPatch, "", encodeJSON(append(copied, c.operations(g.stored)...)))))
	}
	if g.sub == "" {
		object := c.done(g.fresh())
		for _, way := range []struct{ name, contentType, query string }{
			{"apply that creates", applyYAML, manager}, {"dry run of apply that creates", applyYAML, manager + "&dryRun=All"},
		} {
			create := g.patch(way.name, way.contentType, way.query, encodeJSON(object))
			create.path = g.item(g.namespace, nameOf(object))
			all = append(all, create)
		}
		merge := sloppy(g.patch("merge patch of what is not there", mergePatch, "", encodeJSON(c.merge())))
		merge.path = g.item(g.namespace, nameOf(object))
		all = append(all, merge)
	}
	return all
}

// config is what an apply sends.
func (g target) config() map[string]any {
	if g.sub == "" && g.applied != nil {
		return g.applied
	}
	out := g.other(g.name)
	if g.kind.Kind == "Scale" && g.stored != nil {
		delete(out, "spec")
	}
	return out
}

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
		selected := "labelSelector=" + url.QueryEscape(g.selector)
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

func sloppy(r request) request {
	r.sloppy = true
	return r
}

func nameOf(object map[string]any) string {
	name, _ := child(object, "metadata")["name"].(string)
	return name
}
