package twoworlds

import "slices"

// deleteOptions is the body of some deletes.
func (d *draw) deleteOptions(o Object) string {
	if d.chance(60) {
		return ""
	}
	options := map[string]any{"kind": "DeleteOptions", "apiVersion": "v1"}
	switch d.IntN(6) {
	case 0:
		options["preconditions"] = map[string]any{"uid": d.uid(o)}
	case 1:
		options["preconditions"] = map[string]any{"resourceVersion": d.revision()}
	case 2:
		options["propagationPolicy"] = pick(d, "Orphan", "Foreground", "Background", "Sideways")
	case 3:
		options["gracePeriodSeconds"] = pick(d, 0, 5, -1)
	case 4:
		options["dryRun"] = []any{"All"}
	case 5:
		options["orphanDependents"] = true
	}
	return text(options)
}

func (d *draw) delete(o Object) Step {
	s := Step{Method: "DELETE", Path: o.path(), Body: d.deleteOptions(o)}
	if s.Body != "" {
		s.Type = jsonType
	}
	if d.chance(30) {
		s.add("dryRun=All")
	}
	return s
}

func (d *draw) collect(o Object) Step {
	s := Step{Method: "DELETE", Path: collection(o.Kind, o.NS), Body: d.deleteOptions(o)}
	if s.Body != "" {
		s.Type = jsonType
	}
	if d.Change.What == changeWas && d.chance(50) {
		s.add("resourceVersionMatch=Exact&resourceVersion=" + pick(d, "$rv:1", "$rv:1", "$rv:2") + pick(d, "", "&dryRun=All"))
		return s
	}
	d.selectors(o, &s)
	switch d.IntN(4) {
	case 0:
		s.add("resourceVersionMatch=Exact&resourceVersion=" + d.revision())
	case 1:
		s.add("resourceVersionMatch=NotOlderThan&resourceVersion=" + d.revision())
	case 2:
		s.add("resourceVersion=" + d.revision())
	}
	if d.chance(30) {
		s.add("limit=" + pick(d, "1", "2"))
	}
	if d.chance(50) {
		s.add("dryRun=All")
	}
	return s
}

// part is a request to a subresource.
func (d *draw) part(o Object) Step {
	if !slices.Contains([]string{"pods", "deployments", "services", "widgets", "namespaces"}, o.Kind) {
		o.Kind, o.NS = pick(d, "pods", "deployments"), home
	}
	at := o.path()
	meta := map[string]any{"name": o.Name}
	if o.NS != "" {
		meta["namespace"] = o.NS
	}
	switch o.Kind {
	case "pods":
		switch d.IntN(7) {
		case 0:
			return Step{Method: "GET", Path: at + "/log", Query: pick(d, "", "previous=true", "container=x")}
		case 1:
			return Step{Method: pick(d, "POST", "GET"), Path: at + "/" + pick(d, "exec", "attach", "portforward"), Query: "command=ls&stdout=true"}
		case 2:
			return Step{Method: "GET", Path: at + "/proxy/"}
		case 3:
			return Step{Method: "POST", Path: at + "/eviction", Type: jsonType, Body: text(map[string]any{"apiVersion": "policy/v1", "kind": "Eviction", "metadata": meta})}
		case 4:
			return Step{Method: "POST", Path: at + "/binding", Type: jsonType,
				Body: text(map[string]any{"apiVersion": "v1", "kind": "Binding", "metadata": meta, "target": map[string]any{"kind": "Node", "name": "n1"}})}
		case 5:
			return Step{Method: "PATCH", Path: at + "/ephemeralcontainers", Type: strategicType,
				Body: `{"spec":{"ephemeralContainers":[{"name":"e","image":"i"}]}}`}
		}
	case "deployments":
		switch d.IntN(3) {
		case 0:
			return Step{Method: "GET", Path: at + "/scale"}
		case 1:
			return Step{Method: "PATCH", Path: at + "/scale", Type: mergeType, Body: `{"spec":{"replicas":3}}`}
		}
	case "services":
		return Step{Method: "GET", Path: at + pick(d, "/proxy/", "/proxy/x", "/status")}
	case "namespaces":
		if d.chance(40) {
			return Step{Method: "PUT", Path: at + "/finalize", Type: jsonType, Body: text(d.mine(o))}
		}
	}
	if d.chance(40) {
		return Step{Method: "GET", Path: at + "/status"}
	}
	if d.chance(40) {
		return Step{Method: "PUT", Path: at + "/status", Type: jsonType, Body: text(d.mine(o))}
	}
	return d.patch(o, at+"/status")
}

// ask is a question about rights, or about policy.
func (d *draw) ask(o Object) Step {
	const stock, ours = "/apis/authorization.k8s.io/v1/", "/apis/authorization.proviso.dev/v1alpha1/"
	switch d.IntN(6) {
	case 0:
		return Step{Method: "POST", Path: stock + "selfsubjectrulesreviews", Type: jsonType, Body: `{"spec":{"namespace":"home"}}`}
	case 1:
		return Step{Method: "POST", Path: stock + "selfsubjectaccessreviews", Type: jsonType,
			Body: text(map[string]any{"spec": map[string]any{"resourceAttributes": map[string]any{
				"verb": pick(d, "get", "list", "delete"), "resource": o.Kind, "namespace": d.where(o), "name": pick(d, o.Name, ""), "version": pick(d, "v1", "")}}})}
	case 2:
		return Step{Method: "POST", Path: ours + "namespaces/home/resourceaccessreviews", Type: jsonType,
			Body: text(map[string]any{"spec": map[string]any{"verb": "get", "resourceKind": o.Kind}})}
	case 3:
		return Step{Method: "GET", Path: ours + "namespaces/master/" + pick(d, "roles", "rolebindings", "roles/bobs", "rolebindings/bobs")}
	case 4:
		return Step{Method: "POST", Path: ours + "namespaces/home/subjectaccessreviews", Type: jsonType,
			Body: text(map[string]any{"spec": map[string]any{"verb": "get", "resourceKind": o.Kind, "userName": pick(d, "", "bob"), "trace": true}})}
	}
	return Step{Method: "GET", Path: pick(d, "/api", "/apis", "/api/v1", "/apis/"+group+"/v1", "/version", "/healthz", "/metrics")}
}
