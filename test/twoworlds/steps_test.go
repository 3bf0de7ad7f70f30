package twoworlds

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
)

const (
	jsonType      = "application/json"
	mergeType     = "application/merge-patch+json"
	jsonPatchType = "application/json-patch+json"
	strategicType = "application/strategic-merge-patch+json"
	applyType     = "application/apply-patch+yaml"
	protobufType  = "application/vnd.kubernetes.protobuf"
	tableType     = "application/json;as=Table;v=v1;g=meta.k8s.io"
	metaType      = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
	metaListType  = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"
	cborType      = "application/cbor"
	yamlType      = "application/yaml"
)

func text(v any) string {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(err) // bodies are plain data
	}
	return string(raw)
}

// step draws one request, or two that belong together.
func (d *draw) step() []Step {
	o := d.target()
	verb := pick(d, d.verbs...)
	if d.chance(15) {
		verb = pick(d, "get", "list", "watch", "create", "update", "patch", "delete", "deletecollection", "part", "ask")
	}
	var s Step
	switch verb {
	case "get":
		s = Step{Method: "GET", Path: o.path()}
		if d.chance(20) {
			s.Query = "resourceVersion=" + d.revision()
		}
	case "list":
		return d.list(o)
	case "watch":
		s = d.watch(o)
	case "create":
		s = d.create(o)
	case "update":
		s = d.update(o)
	case "patch":
		s = d.patch(o, o.path())
	case "delete":
		s = d.delete(o)
	case "deletecollection":
		s = d.collect(o)
	case "part":
		s = d.part(o)
	case "bind":
		return []Step{d.bind()}
	case "review":
		return []Step{d.review()}
	case "request":
		return []Step{d.request()}
	default:
		return []Step{d.ask(o)}
	}
	d.vary(o, &s)
	s.Meanwhile = s.Meanwhile || d.chance(8)
	return []Step{s}
}

// vary changes the version, the form of the answer, or the body.
func (d *draw) vary(o Object, s *Step) {
	if k := kinds[o.Kind]; k.also != "" && d.chance(40) {
		s.Path = strings.Replace(s.Path, k.root+"/", k.also+"/", 1)
		s.Body = strings.Replace(s.Body, `"`+k.version+`"`, `"`+strings.TrimPrefix(k.also, "/apis/")+`"`, 1)
		for _, missing := range []string{`"keep":"keep-mine",`, `"level":"high",`, `"level":"low",`} {
			if s.Type == applyType || d.chance(50) { // what an apply has too much of is an error of the server's
				s.Body = strings.Replace(s.Body, missing, "", 1)
			}
		}
	}
	if s.Accept == "" && d.chance(25) {
		s.Accept = pick(d, tableType, metaType, cborType, protobufType, yamlType)
		if s.Watch {
			s.Accept = pick(d, tableType, metaType)
		}
	}
	if s.Method == "POST" || s.Method == "PUT" || s.Method == "PATCH" {
		if d.chance(25) {
			s.add("fieldValidation=" + pick(d, "Warn", "Strict", "Ignore"))
		}
		if d.chance(10) {
			s.Body = strings.Replace(s.Body, `"metadata":{`, pick(d, `"unknown":1,"metadata":{`, `"metadata":{"unknown":1,`), 1)
		}
		if d.chance(4) {
			s.Body = pick(d, "{", "[]", `{"kind":"Pod"}`, `{"metadata":{"name":"another"}}`, "null", "")
		}
	}
	if s.Method != "GET" && d.chance(30) {
		s.add("dryRun=All")
	}
	d.rare(o, s)
}

// inVersion is the version in a path.
var inVersion = regexp.MustCompile(`/v[12](beta1)?/`)

// rare are the ways that few clients use.
func (d *draw) rare(o Object, s *Step) {
	if !d.chance(20) {
		return
	}
	switch {
	case s.Watch:
		if at := inVersion.FindString(s.Path); d.chance(50) {
			s.Path = inVersion.ReplaceAllString(o.path(), at) // of one object
		}
		switch d.IntN(3) {
		case 0: // as it was before there was watch=1
			s.Path = inVersion.ReplaceAllString(s.Path, "${0}watch/")
		case 1:
			s.Socket, s.Accept = true, ""
		}
	case s.Method == "GET":
		switch d.IntN(4) {
		case 0:
			s.Method = "HEAD"
		case 1:
			s.Accept = pick(d, tableType+", "+jsonType, "application/json;as=Nothing;v=v1;g=meta.k8s.io, "+metaListType+", */*", "*/*", "application/json;profile=x")
		case 2:
			s.Accept = tableType
			s.add("includeObject=" + pick(d, "Object", "None", "Metadata", "Everything"))
		default:
			s.add(pick(d, "pretty=1", "timeout=3s", "timeoutSeconds=1", "shardSelector=x", "sendInitialEvents=true", "allowWatchBookmarks=true", "watch=0"))
		}
	case s.Method == "DELETE" && s.Body == "":
		s.add(pick(d, "propagationPolicy=Orphan", "propagationPolicy=Foreground", "orphanDependents=false", "gracePeriodSeconds=0", "gracePeriodSeconds=9",
			"preconditions.uid="+nobodys, "uid="+nobodys, "ignoreStoreReadErrorWithClusterBreakingPotential=true", "pretty=1", "dryRun=Some"))
	default:
		s.add(pick(d, "pretty=1", "timeout=3s", "fieldManager=admin", "fieldManager="+strings.Repeat("x", 129), "dryRun=Some", "force=true"))
	}
}

func (s *Step) add(query string) {
	if s.Query != "" {
		s.Query += "&"
	}
	s.Query += query
}

// revision is a state of the cluster: empty, as it was, after the rotation, complete, or that of the last answer.
func (d *draw) revision() string {
	return pick(d, "0", "$rv:0", "$rv:1", "$rv:2", "$rv:3", "$last", "1")
}

func (d *draw) selectors(o Object, s *Step) {
	if d.chance(25) {
		s.add("labelSelector=" + pick(d, "team%3Da", "team%3Db", "team%21%3Da", "tier", "%21tier", "tier%3Dgold", "team+in+%28a%2Cb%29"))
	}
	if d.chance(20) {
		s.add("fieldSelector=" + pick(d, "metadata.name%3D"+o.Name, "metadata.name%21%3Dours1", "metadata.namespace%3D"+home, "spec.level%3Dhigh", "status.phase%3DActive"))
	}
}

// where is the namespace of an object, or all of them.
func (d *draw) where(o Object) string {
	all := 20
	if slices.ContainsFunc(d.Caller, isUnion) {
		all = 60
	}
	if d.chance(all) {
		return ""
	}
	return o.NS
}

func (d *draw) list(o Object) []Step {
	s := Step{Method: "GET", Path: collection(o.Kind, d.where(o))}
	d.selectors(o, &s)
	switch d.IntN(5) {
	case 0:
		s.add("resourceVersionMatch=Exact&resourceVersion=" + d.revision())
	case 1:
		s.add("resourceVersionMatch=NotOlderThan&resourceVersion=" + d.revision())
	case 2:
		s.add("resourceVersion=" + d.revision())
	}
	more := d.chance(35)
	if more {
		s.add("limit=" + pick(d, "1", "1", "2", "3"))
	}
	if d.chance(20) {
		s.Accept = metaListType
	}
	d.vary(o, &s)
	out := []Step{s}
	if more && d.chance(70) {
		out = append(out, Step{Method: "GET", Path: s.Path, Query: "limit=" + pick(d, "1", "9") + "&continue=$more"})
	}
	return out
}

func (d *draw) watch(o Object) Step {
	s := Step{Method: "GET", Path: collection(o.Kind, d.where(o)), Query: "watch=1&timeoutSeconds=5", Watch: true, Meanwhile: d.chance(50)}
	switch d.IntN(4) {
	case 0:
		s.add("sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true")
	case 1:
		s.add("resourceVersion=" + pick(d, "$rv:0", "$rv:1", "$rv:2", "$rv:3"))
	case 2:
		s.add("resourceVersion=0")
	}
	if d.chance(20) {
		s.add("labelSelector=" + pick(d, "team%3Da", "team%3Db", "tier"))
	}
	return s
}

// mine is an object as the caller would write it.
func (d *draw) mine(o Object) map[string]any {
	o.Team, o.Ending = pick(d, "a", "a", o.Team), d.chance(5)
	if o.Hid != "" {
		o.Hid = pick(d, "", o.Hid, "another-"+o.Hid)
	}
	body := o.body("mine")
	meta, _ := body["metadata"].(map[string]any)
	labels, _ := meta["labels"].(map[string]any)
	switch d.IntN(10) {
	case 0:
		labels[guarded] = "x"
	case 1:
		labels[protected] = "x"
	case 2:
		labels["bad key!"] = "x"
	case 3:
		meta["ownerReferences"] = []any{map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "name": "theirs1", "uid": nobodys}}
	}
	return body
}

func (d *draw) create(o Object) Step {
	body := d.mine(o)
	if meta, _ := body["metadata"].(map[string]any); d.chance(20) && !d.made {
		d.made = true
		delete(meta, "name")
		meta["generateName"] = "made-"
	}
	return Step{Method: "POST", Path: collection(o.Kind, o.NS), Type: jsonType, Body: text(body)}
}

func (d *draw) update(o Object) Step {
	body := d.mine(o)
	meta, _ := body["metadata"].(map[string]any)
	switch d.IntN(5) {
	case 0:
		meta["resourceVersion"] = d.revision()
	case 1:
		meta["uid"] = d.uid(o)
	}
	return Step{Method: "PUT", Path: o.path(), Type: jsonType, Body: text(body)}
}

func (d *draw) uid(o Object) string {
	if d.chance(50) {
		return nobodys
	}
	return "$uid:" + o.Kind + "/" + o.NS + "/ours1"
}

// patch draws one of the four types. Some of them test what is stored.
func (d *draw) patch(o Object, at string) Step {
	s := Step{Method: "PATCH", Path: at}
	switch d.IntN(4) {
	case 0:
		field := d.pointer(o)
		value := pick(d, o.Value, "gold", "high", "b", keeper)
		if o.Hid != "" {
			value = pick(d, o.Hid, "another-"+o.Hid, value)
		}
		ops := pick(d,
			[]any{map[string]any{"op": "test", "path": field, "value": value}},
			[]any{map[string]any{"op": "copy", "from": field, "path": "/metadata/labels/copied"}},
			[]any{map[string]any{"op": "move", "from": field, "path": "/metadata/annotations"}},
			[]any{map[string]any{"op": "replace", "path": "/metadata/labels/team", "value": "a"}},
			[]any{map[string]any{"op": "remove", "path": field}})
		if d.chance(40) {
			ops = append(ops, map[string]any{"op": "add", "path": "/metadata/labels/team", "value": pick(d, "a", "b")})
		}
		s.Type, s.Body = jsonPatchType, text(ops)
	case 1:
		s.Type, s.Body = pick(d, mergeType, strategicType), text(d.fragment(o))
	case 2:
		s.Type, s.Body = mergeType, text(d.fragment(o))
	default:
		s.Type, s.Body = applyType, text(d.mine(o))
		s.add("fieldManager=me")
		if d.chance(60) {
			s.add("force=true")
		}
	}
	return s
}

func (d *draw) fragment(o Object) any {
	if o.Hid != "" && d.chance(40) {
		return o.hide(map[string]any{})
	}
	return pick(d,
		any(map[string]any{"metadata": map[string]any{"labels": map[string]any{"team": pick(d, "a", "b")}}}),
		any(map[string]any{"metadata": map[string]any{"labels": map[string]any{guarded: "x"}}}),
		any(map[string]any{"metadata": map[string]any{"labels": map[string]any{protected: "x"}}}),
		any(map[string]any{"metadata": map[string]any{"labels": map[string]any{"more": "x"}, "resourceVersion": d.revision()}}),
		any(map[string]any{"metadata": map[string]any{"finalizers": nil}}),
		any(map[string]any{"metadata": map[string]any{"uid": d.uid(o), "labels": map[string]any{"more": "x"}}}),
		any(map[string]any{"data": map[string]any{"more": "x"}, "spec": map[string]any{"note": "mine", "hostname": "mine", "replicas": 2}}),
		any(map[string]any{"data": map[string]any{"more": 1}, "spec": map[string]any{"note": 1, "replicas": "x"}}))
}
