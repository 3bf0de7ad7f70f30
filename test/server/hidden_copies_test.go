package server

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	appliedKey     = "kubectl.kubernetes.io/last-applied-configuration"
	appliedPointer = "/metadata/annotations/kubectl.kubernetes.io~1last-applied-configuration"
)

// clientApplied is a body with the annotation that kubectl apply writes: what it applied.
func clientApplied(t *testing.T, body string) string {
	t.Helper()
	var object map[string]any
	if err := json.Unmarshal([]byte(body), &object); err != nil {
		t.Fatal(err)
	}
	applied, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	metadata, _ := object["metadata"].(map[string]any)
	annotations, _ := metadata["annotations"].(map[string]any)
	if annotations == nil {
		annotations = map[string]any{}
	}
	annotations[appliedKey] = string(applied) + "\n"
	metadata["annotations"] = annotations
	text, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func quoted(text string) string {
	out, _ := json.Marshal(text)
	return string(out)
}

// HF-4: a JSON patch does not read what kubectl applied, nor who manages what: both repeat hidden fields.
func TestPatchesDoNotReadCopiesOfHiddenFields(t *testing.T) {
	f, _ := hiding(t)
	f.namespace(t, "copies")
	const secrets = "/api/v1/namespaces/copies/secrets"
	f.admin(t, http.MethodPost, secrets+"?fieldManager=kubectl-client-side-apply", jsonBody,
		clientApplied(t, `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"s","annotations":{"team":"a"}},"data":{"code":"MTIzNA=="}}`))
	patch := func(operations string) answer {
		return f.as(t, "blind", http.MethodPatch, secrets+"/s?fieldManager=blind", jsonPatch, operations)
	}
	managed := "/metadata/managedFields/0/fieldsV1/f:data/f:code"
	for _, operations := range []string{
		`[{"op":"copy","from":"` + appliedPointer + `","path":"/metadata/annotations/leak"}]`,
		`[{"op":"move","from":"` + appliedPointer + `","path":"/metadata/annotations/leak"}]`,
		`[{"op":"copy","from":"/metadata/annotations","path":"/metadata/labels"}]`,
		`[{"op":"copy","from":"/metadata","path":"/metadata/annotations/leak"}]`,
		`[{"op":"test","path":"` + appliedPointer + `","value":"guess"}]`,
		`[{"op":"test","path":"/metadata/annotations","value":{}}]`,
		`[{"op":"test","path":"/metadata","value":{}}]`,
		`[{"op":"copy","from":"` + managed + `","path":"/metadata/labels"}]`,
		`[{"op":"test","path":"` + managed + `","value":{}}]`,
		`[{"op":"replace","path":"` + managed + `","value":{}}]`,
		`[{"op":"remove","path":"` + strings.Replace(managed, "f:code", "f:other", 1) + `"}]`,
		`[{"op":"remove","path":"/metadata/managedFields/1"}]`,
	} {
		refused(t, operations, patch(operations), "reveal:example.com/secretdata")
	}
	for _, operations := range []string{
		`[{"op":"add","path":"/metadata/annotations/foo","value":"a"}]`, `[{"op":"replace","path":"/metadata/annotations/foo","value":"b"}]`,
		`[{"op":"test","path":"/metadata/annotations/foo","value":"b"},{"op":"remove","path":"/metadata/annotations/foo"}]`,
		`[{"op":"test","path":"/metadata/annotations/team","value":"a"}]`, `[{"op":"copy","from":"/metadata/annotations/team","path":"/metadata/annotations/group"}]`,
		`[{"op":"replace","path":"/metadata/managedFields","value":[{}]}]`,
	} {
		allowed(t, operations, patch(operations))
	}
	if text, _ := json.Marshal(f.admin(t, http.MethodGet, secrets+"/s", jsonBody, "").body["metadata"]); strings.Count(string(text), "MTIzNA==") != 1 || strings.Contains(string(text), "leak") {
		t.Errorf("stored: %s", text)
	}
	if text, _ := json.Marshal(f.as(t, "blind", http.MethodGet, secrets+"/s", jsonBody, "").body); strings.Contains(string(text), "MTIzNA==") {
		t.Errorf("shown: %s", text)
	}
}

// HF-4, HF-10: a user who writes what kubectl applied is not told whether it is what is stored.
func TestGuessesOfWhatWasApplied(t *testing.T) {
	f, _ := hiding(t)
	f.namespace(t, "guessed")
	for i, kind := range []struct{ path, api, kind, rest string }{
		{"/api/v1/namespaces/guessed/secrets", "v1", "Secret", `"data":{"code":%q}`},
		{"/apis/apps/v1/namespaces/guessed/deployments", "apps/v1", "Deployment", `"spec":{"selector":{"matchLabels":{"a":"b"}},
			"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"i","env":[{"name":"A","value":%q}]}]}}}`},
	} {
		head := fmt.Sprintf(`{"apiVersion":%q,"kind":%q,`, kind.api, kind.kind)
		for j, write := range []struct{ method, contentType, query, body string }{ // GUESS is the text, and SHOWN the object
			{http.MethodPatch, mergePatch, "&dryRun=All", `{"metadata":{"annotations":{"` + appliedKey + `":GUESS}}}`},
			{http.MethodPatch, mergePatch, "", `{"metadata":{"annotations":{"` + appliedKey + `":GUESS}}}`},
			{http.MethodPatch, strategic, "", `{"metadata":{"labels":{"l":"1"},"annotations":{"` + appliedKey + `":GUESS}}}`},
			{http.MethodPatch, mergePatch, "", `{"data":{"junk":"anVuaw=="},"metadata":{"annotations":{"` + appliedKey + `":GUESS}}}`},
			{http.MethodPatch, jsonPatch, "", `[{"op":"add","path":"` + appliedPointer + `","value":GUESS}]`},
			{http.MethodPatch, jsonPatch, "", `[{"op":"add","path":"/metadata/labels","value":{"` + appliedKey + `":GUESS}},{"op":"move","from":"/metadata/labels","path":"/metadata/annotations"}]`},
			{http.MethodPatch, applyPatch, "", head + `"metadata":{"name":"NAME","annotations":{"` + appliedKey + `":GUESS}}}`},
			{http.MethodPatch, applyPatch, "&force=true", head + `"metadata":{"name":"NAME","annotations":{"` + appliedKey + `":GUESS}}}`},
			{http.MethodPatch, applyPatch, "&dryRun=All", head + `"metadata":{"name":"NAME","annotations":{"` + appliedKey + `":GUESS}}}`},
			{http.MethodPut, jsonBody, "", "SHOWN"},
			{http.MethodPut, jsonBody, "&dryRun=All", "SHOWN"},
		} {
			var answers []string
			name := fmt.Sprintf("x%d-%d", i, j)
			written := func(value string) string {
				return clientApplied(t, fmt.Sprintf(head+`"metadata":{"name":%q},`+kind.rest+`}`, name, value))
			}
			guess := appliedIn(t, written("b25l")) // it is right in the first world
			for _, value := range []string{"b25l", "dHdv"} {
				f.as(t, "admin", http.MethodDelete, kind.path+"/"+name, jsonBody, "")
				f.admin(t, http.MethodPost, kind.path+"?fieldManager=kubectl-client-side-apply", jsonBody, written(value))
				got := ""
				for range 2 {
					before := f.admin(t, http.MethodGet, kind.path+"/"+name, jsonBody, "").body
					shown := f.as(t, "blind", http.MethodGet, kind.path+"/"+name, jsonBody, "").body
					shown["metadata"].(map[string]any)["annotations"].(map[string]any)[appliedKey] = guess
					whole, _ := json.Marshal(shown)
					body := strings.NewReplacer("SHOWN", string(whole), "GUESS", quoted(guess), "NAME", name).Replace(write.body)
					got += volatile.ReplaceAllString(f.raw(t, "blind", write.method, kind.path+"/"+name+"?fieldManager=blind"+write.query, write.contentType, "application/json", body), "")
					after := f.admin(t, http.MethodGet, kind.path+"/"+name, jsonBody, "").body
					for _, key := range []string{"resourceVersion", "generation"} {
						got += fmt.Sprintf("\n%s: %v", key, before["metadata"].(map[string]any)[key] == after["metadata"].(map[string]any)[key])
					}
					if !strings.Contains(fmt.Sprint(after), value) {
						t.Errorf("%s: the value is gone: %v", name, after)
					}
				}
				answers = append(answers, got)
			}
			if diff := cmp.Diff(pieces(answers[0]), pieces(answers[1])); diff != "" {
				t.Errorf("%s %s %s%s: a right guess is told from a wrong one: %s", write.method, kind.kind, write.body, write.query, diff)
			}
		}
	}
}

func appliedIn(t *testing.T, body string) string {
	t.Helper()
	var object metav1.PartialObjectMetadata
	if err := json.Unmarshal([]byte(body), &object); err != nil {
		t.Fatal(err)
	}
	return object.Annotations[appliedKey]
}

// HF-2: what kubectl applied in another version has its fields in other places, and is not shown.
func TestWhatWasAppliedInAnotherVersion(t *testing.T) {
	f, _ := hiding(t)
	f.namespace(t, "applied-elsewhere")
	f.apply(t, fieldsGroup+"/metrics", fmt.Sprintf(hidingRules, "metrics", "horizontalpodautoscalers.autoscaling", ".spec.metrics", "metrics", "Nothing"))
	defer f.admin(t, http.MethodDelete, fieldsGroup+"/metrics", jsonBody, "")
	f.grant(t, "scaled", []string{"autoscaling"}, []string{"horizontalpodautoscalers"}, "get", "list", "watch", "patch")
	for version, fields := range map[string]string{"v1": `"targetCPUUtilizationPercentage":77`, "v2": `"metrics":[{"type":"Resource","resource":{"name":"cpu","target":{"type":"Utilization","averageUtilization":77}}}]`} {
		at := "/apis/autoscaling/" + version + "/namespaces/applied-elsewhere/horizontalpodautoscalers"
		f.admin(t, http.MethodPost, at, jsonBody, clientApplied(t, fmt.Sprintf(`{"apiVersion":"autoscaling/%s","kind":"HorizontalPodAutoscaler","metadata":{"name":%[1]q},"spec":{%[2]s,"maxReplicas":5,"scaleTargetRef":{"kind":"Deployment","name":"d","apiVersion":"apps/v1"}}}`, version, fields)))
		f.settled(t, "the hidden metrics", func() bool {
			return strings.Contains(f.as(t, "scaled", http.MethodGet, at+"/"+version, jsonBody, "").warning, ".spec.metrics")
		})
		for what, got := range map[string]answer{
			"get": f.as(t, "scaled", http.MethodGet, at+"/"+version, jsonBody, ""), "list": f.as(t, "scaled", http.MethodGet, at, jsonBody, ""),
			"patch": f.as(t, "scaled", http.MethodPatch, strings.Replace(at, "/v1/", "/v2/", 1)+"/"+version, mergePatch, `{"metadata":{"labels":{"a":"b"}}}`),
		} {
			text, _ := json.Marshal(got.body)
			if got.code != 200 || strings.Contains(string(text), `:77`) || !strings.Contains(string(text), appliedKey) || version == "v2" && what == "get" && !strings.Contains(string(text), `\"maxReplicas\":5`) {
				t.Errorf("%s of what was applied in %s: %d %s", what, version, got.code, text)
			}
		}
	}
}
