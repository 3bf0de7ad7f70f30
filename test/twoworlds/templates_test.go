package twoworlds

import (
	"slices"
	"strings"
)

const (
	home, other = "home", "other"
	group       = "two.example.com"
	guarded     = "excl.example.com/x"
	guardVerb   = "excl.example.com/guard"
	protected   = "prot.example.com/tier"
	keeper      = "keep.example.com/it"
)

// template is one piece of policy of a caller.
type template struct {
	// rules are of a role in the master namespace, in JSON. KINDS stands for all kinds of the search.
	rules string
	// rbac are rules of a Role in the home namespace instead.
	rbac string
	// local are rules of roles of Policy in single namespaces instead, by namespace.
	local map[string]string
	// reaches reports whether some right of the template covers the object: the caller may then learn what it holds.
	reaches func(Object) bool
	// asks: the caller may ask for access, and for nothing else.
	asks bool
	// verbs and kinds are what the caller should try; no kinds means all.
	verbs, kinds []string
}

var (
	reads  = []string{"get", "list", "watch"}
	writes = []string{"create", "update", "patch", "delete", "deletecollection"}
)

func ofTeamA(o Object) bool  { return o.Team == "a" }
func notTeamB(o Object) bool { return o.Team != "b" }
func notHigh(o Object) bool  { return o.Kind == "widgets" && o.Level != "high" }

const (
	teamA = `resource.metadata.labels.team == \"a\"`
	low   = `!(has(resource.spec.level) && resource.spec.level == \"high\")`
)

// rule is a rule of Policy under a condition.
func rule(verbs, kinds, where string) string {
	return `[{"verbs": [` + verbs + `], "resourceKinds": [` + kinds + `], "where": "` + where + `", "description": "only ours"}]`
}

const widgets = `"widgets.` + group + `"`

// templates are what the policy of a caller is made of.
var templates = map[string]template{
	"see-a":        {rules: rule(`"get", "list", "watch"`, "KINDS", teamA), reaches: ofTeamA, verbs: reads},
	"get-a":        {rules: rule(`"get"`, "KINDS", teamA), reaches: ofTeamA, verbs: []string{"get"}},
	"list-a":       {rules: rule(`"list", "watch"`, "KINDS", teamA), reaches: ofTeamA, verbs: []string{"list", "watch"}},
	"delete-a":     {rules: rule(`"delete"`, "KINDS", teamA), reaches: ofTeamA, verbs: []string{"delete", "deletecollection"}},
	"collect-a":    {rules: rule(`"deletecollection"`, "KINDS", teamA), reaches: ofTeamA, verbs: []string{"deletecollection"}},
	"patch-a":      {rules: rule(`"patch"`, "KINDS", teamA), reaches: ofTeamA, verbs: []string{"patch"}},
	"update-a":     {rules: rule(`"update"`, "KINDS", teamA), reaches: ofTeamA, verbs: []string{"update", "patch"}},
	"create-a":     {rules: rule(`"create"`, "KINDS", teamA), reaches: ofTeamA, verbs: []string{"create"}},
	"all-a":        {rules: rule(`"*"`, "KINDS", teamA), reaches: ofTeamA, verbs: append(slices.Clone(reads), writes...)},
	"not-b":        {rules: rule(`"update", "delete"`, "KINDS", `resource.metadata.labels.team != \"b\"`), reaches: notTeamB, verbs: writes[1:]},
	"in-a":         {rules: rule(`"get", "list", "watch", "delete"`, "KINDS", `resource.metadata.labels[\"team\"] in [\"a\", \"z\"]`), reaches: ofTeamA, verbs: append(slices.Clone(reads), "delete")},
	"when-a":       {rules: strings.Replace(rule(`"update", "delete"`, "KINDS", `oldObject.metadata.labels.team == \"a\"`), `"where"`, `"when"`, 1), reaches: ofTeamA, verbs: writes[1:]},
	"write-deny-b": {rules: `[{"verbs": ["create", "update", "delete"], "resourceKinds": [KINDS]}, {"deny": true, "verbs": ["create", "update", "delete"], "resourceKinds": [KINDS], "where": "resource.metadata.labels.team == \"b\""}]`, reaches: notTeamB, verbs: writes},
	"fields-a":     {rules: rule(`"granular", "granular:labels", "granular:replicas", "granular:finalizers"`, "KINDS", teamA), reaches: ofTeamA, verbs: []string{"update", "patch"}},
	"field-x":      {rules: rule(`"granular", "granular:`+guardVerb+`"`, "KINDS", teamA), reaches: ofTeamA, verbs: []string{"patch"}},
	"named":        {rules: `[{"verbs": ["get", "delete", "update"], "resourceKinds": [KINDS], "resourceNames": ["ours1"]}]`, reaches: func(o Object) bool { return o.Name == "ours1" }, verbs: []string{"get", "delete", "patch"}},
	"see-named":    {rules: rule(`"get", "list", "watch"`, "KINDS", `resource.metadata.name.startsWith(\"ours\")`), reaches: func(o Object) bool { return strings.HasPrefix(o.Name, "ours") }, verbs: reads},
	"see-content":  {rules: rule(`"get", "delete"`, `"configmaps"`, `resource.data.team == \"a\"`), reaches: func(o Object) bool { return o.Kind == "configmaps" && o.Team == "a" }, verbs: []string{"get", "delete"}, kinds: []string{"configmaps"}},
	// RD-10: what no selector can say.
	"list-content": {rules: rule(`"get", "list", "watch"`, `"configmaps"`, `resource.data.team == \"a\"`), reaches: func(o Object) bool { return o.Kind == "configmaps" && o.Team == "a" }, verbs: reads, kinds: []string{"configmaps"}},
	"list-pattern": {rules: rule(`"get", "list", "watch", "delete"`, "KINDS", `resource.metadata.labels.team.matches(\"^[a]$\")`), reaches: ofTeamA, verbs: append(slices.Clone(reads), "delete")},
	"list-either":  {rules: rule(`"list", "watch"`, "KINDS", `resource.metadata.labels.team == \"a\" || request.name.startsWith(\"ours\")`), reaches: func(o Object) bool { return ofTeamA(o) || strings.HasPrefix(o.Name, "ours") }, verbs: []string{"list", "watch"}},
	"see-low":      {rules: rule(`"get", "list", "watch"`, widgets, low), reaches: notHigh, verbs: reads, kinds: []string{"widgets"}},
	"delete-low":   {rules: rule(`"delete"`, widgets, low), reaches: notHigh, verbs: []string{"delete", "deletecollection"}, kinds: []string{"widgets"}},
	"update-low":   {rules: rule(`"update"`, widgets, low), reaches: notHigh, verbs: []string{"update", "patch"}, kinds: []string{"widgets"}},
	"parts-a":      {rules: rule(`"get", "update", "create"`, `"pods/status", "pods/log", "pods/ephemeralcontainers", "pods/eviction", "pods/binding", "deployments.apps/status", "deployments.apps/scale"`, teamA), reaches: ofTeamA, verbs: []string{"part"}, kinds: []string{"pods", "deployments"}},
	"connect":      {rules: `[{"verbs": ["exec", "proxy"], "resourceKinds": ["pods/exec", "pods/proxy", "services/proxy"], "when": "request.name.startsWith(\"ours\")"}]`, reaches: func(o Object) bool { return strings.HasPrefix(o.Name, "ours") }, verbs: []string{"part"}, kinds: []string{"pods", "services"}},
	"home-maps": {rbac: `[{"verbs": ["get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"], "apiGroups": [""], "resources": ["configmaps"]}]`,
		reaches: func(o Object) bool { return o.Kind == "configmaps" && o.NS == home }, verbs: append(slices.Clone(reads), writes...), kinds: []string{"configmaps"}},
}

// RD-11, RD-12: rights in single namespaces, of which a list over all of them is put together.
func init() {
	const denies = `{"deny": true, "verbs": ["get", "list", "watch"], "resourceKinds": [KINDS]}`
	inHome := func(o Object) bool { return o.NS == home }
	homeOfA := func(o Object) bool { return o.NS == home && o.Team == "a" }
	everything := `[{"verbs": ["get", "list", "watch"], "resourceKinds": [KINDS]}]`
	for name, t := range map[string]template{
		"union-some": {local: map[string]string{home: rule(`"get", "list", "watch"`, "KINDS", teamA)}, reaches: homeOfA},
		"union-both": {local: map[string]string{home: everything, other: rule(`"get", "list", "watch"`, "KINDS", teamA)}, reaches: func(o Object) bool { return o.NS == home || o.NS == other && o.Team == "a" }},
		"union-deny": {local: map[string]string{home: rule(`"get", "list", "watch"`, "KINDS", `resource.metadata.labels.team.startsWith(\"a\")`), other: everything[:len(everything)-1] + ", " + denies + "]"}, reaches: homeOfA},
		"union-name": {local: map[string]string{home: `[{"verbs": ["get", "list", "watch"], "resourceKinds": [KINDS], "resourceNames": ["ours1", "ours2"]}]`}, reaches: func(o Object) bool { return o.NS == home && strings.HasPrefix(o.Name, "ours") }},
		"union-when": {rules: strings.Replace(rule(`"get", "list", "watch"`, "KINDS", `request.namespace == \"home\"`), `"where"`, `"when"`, 1), reaches: inHome},
		"union-part": {rules: strings.Replace(rule(`"get", "list", "watch"`, "KINDS", `request.namespace == \"home\" && object.metadata.labels.team == \"a\"`), `"where"`, `"when"`, 1), reaches: homeOfA},
	} {
		t.verbs = append(slices.Clone(reads), "list", "watch")
		templates[name] = t
	}
}

// isUnion tells the templates of rights in single namespaces.
func isUnion(name string) bool { return strings.HasPrefix(name, "union-") }

// kinds of the search, with what the URL of each begins with, also in another version. Events are not among them: the
// servers write some themselves, about what the caller may not see.
var kinds = map[string]struct{ root, kind, version, also string }{
	"configmaps":               {"/api/v1", "ConfigMap", "v1", ""},
	"secrets":                  {"/api/v1", "Secret", "v1", ""},
	"pods":                     {"/api/v1", "Pod", "v1", ""},
	"services":                 {"/api/v1", "Service", "v1", ""},
	"namespaces":               {"/api/v1", "Namespace", "v1", ""},
	"deployments":              {"/apis/apps/v1", "Deployment", "apps/v1", ""},
	"horizontalpodautoscalers": {"/apis/autoscaling/v2", "HorizontalPodAutoscaler", "autoscaling/v2", "/apis/autoscaling/v1"},
	"widgets":                  {"/apis/" + group + "/v1", "Widget", group + "/v1", "/apis/" + group + "/v1beta1"},
}

const allKinds = `"configmaps", "secrets", "pods", "services", "namespaces", "deployments.apps", "horizontalpodautoscalers.autoscaling", ` + widgets

// collection is the path of a collection; in is "" for all namespaces.
func collection(kind, in string) string {
	if in == "" || kind == "namespaces" {
		return kinds[kind].root + "/" + kind
	}
	return kinds[kind].root + "/namespaces/" + in + "/" + kind
}

func (r Ref) path() string { return collection(r.Kind, r.NS) + "/" + r.Name }

// body is an object as an admin or a caller writes it.
func (o Object) body(value string) map[string]any {
	labels := map[string]any{"team": o.Team}
	if o.Tier != "" {
		labels["tier"] = o.Tier
	}
	meta := map[string]any{"name": o.Name, "labels": labels}
	if o.NS != "" {
		meta["namespace"] = o.NS
	}
	if o.Ending {
		meta["finalizers"] = []any{keeper}
	}
	k := kinds[o.Kind]
	out := map[string]any{"apiVersion": k.version, "kind": k.kind, "metadata": meta}
	containers := []any{map[string]any{"name": "c", "image": "i", "env": []any{map[string]any{"name": "V", "value": value}}}}
	switch o.Kind {
	case "configmaps":
		out["data"] = map[string]any{"v": value, "team": o.Team}
	case "secrets":
		out["stringData"] = map[string]any{"v": value}
	case "pods":
		spec := map[string]any{"containers": containers, "automountServiceAccountToken": false}
		if o.Ending { // a pod on a node is deleted gracefully
			spec["nodeName"] = "n1"
		}
		out["spec"] = spec
		meta["annotations"] = map[string]any{"v": value}
	case "services":
		out["spec"] = map[string]any{"ports": []any{map[string]any{"port": 80}}, "selector": map[string]any{"v": value}}
	case "namespaces":
		meta["annotations"] = map[string]any{"v": value}
	case "deployments":
		meta["annotations"] = map[string]any{"v": value}
		match := map[string]any{"app": "x"}
		out["spec"] = map[string]any{"replicas": 1, "selector": map[string]any{"matchLabels": match},
			"template": map[string]any{"metadata": map[string]any{"labels": match}, "spec": map[string]any{"containers": containers}}}
	case "horizontalpodautoscalers":
		target := map[string]any{"apiVersion": "apps/v1", "kind": "Deployment", "name": value}
		out["spec"] = map[string]any{"scaleTargetRef": target, "minReplicas": 1, "maxReplicas": 3}
	case "widgets":
		spec := map[string]any{"note": value, "keep": "keep-" + value}
		if o.Level != "" {
			spec["level"] = o.Level
		}
		out["spec"] = spec
	}
	if o.Hid != "" {
		o.hide(out)
	}
	return out
}
