package bypass

import (
	"bytes"
	"strings"
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
	if g.sub == "" && !strings.HasSuffix(g.kind.Kind, "Review") {
		meta := child(generated, "metadata")
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

// appliesAlone applies the change and nothing else, under a name of its own, as an operator should.
func (g target) appliesAlone(c change) []request {
	if g.sub != "" || g.stored == nil || !g.has("patch") {
		return nil
	}
	return []request{g.patch("apply of its own field", applyYAML, "fieldManager=operator", encodeJSON(c.done(g.other(g.name))))}
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

func sloppy(r request) request {
	r.sloppy = true
	return r
}

func nameOf(object map[string]any) string {
	name, _ := child(object, "metadata")["name"].(string)
	return name
}
