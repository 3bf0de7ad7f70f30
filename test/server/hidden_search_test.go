package server

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/kubernetes/scheme"
)

// hiddenKind is a kind with hidden fields, of which each world has other values.
type hiddenKind struct {
	path, api, kind string
	// body is the rest of the object, with a hidden value in it.
	body func(value string) string
	// sets are ways to set a hidden value, as merge patches, and pointers to it.
	sets, pointers []string
	// status is what an admin writes to its status; nil for most.
	status func(value string) string
}

// object is an object with a hidden value. If it is applied, it has what kubectl apply writes, too.
func (k hiddenKind) object(t *testing.T, name, open, value string, applied bool) string {
	t.Helper()
	body := fmt.Sprintf(`{"apiVersion":%q,"kind":%q,"metadata":{"name":%q,"labels":{"open":%q}},%s}`, k.api, k.kind, name, open, k.body(value))
	if applied {
		body = clientApplied(t, body)
	}
	return body
}

var hiddenKinds = []hiddenKind{
	{"/api/v1/namespaces/%s/secrets", "v1", "Secret", func(v string) string { return `"type":"Opaque","data":{"k":"` + v + `","` + v + `":""}` },
		[]string{`{"data":{"k":"%s"}}`, `{"stringData":{"k":"%s"}}`, `{"data":{"k":null,"x":"%s"}}`}, []string{"/data", "/data/k", "/stringData", "/data/k~1x"}, nil},
	{"/api/v1/namespaces/%s/secrets", "v1", "Secret", func(v string) string { return `"type":"Opaque","immutable":true,"data":{"k":"` + v + `"}` },
		[]string{`{"data":{"k":"%s"}}`, `{"stringData":{"k":"%s"}}`}, []string{"/data", "/data/k", "/immutable"}, nil},
	{"/apis/example.com/v1/namespaces/%s/safes", "example.com/v1", "Safe", func(v string) string {
		return `"spec":{"color":"red","pin":"` + v + `","credentials":{"a":"` + v + `","` + v + `":""},"boxes":[{"name":"one","code":"` + v + `"},{"name":"two"}]}`
	}, []string{`{"spec":{"pin":"%s"}}`, `{"spec":{"credentials":{"a":"%s"}}}`, `{"spec":{"pin":"b25l","credentials":{"a":"%s"}}}`, `{"spec":{"boxes":[{"name":"one","code":"%s"},{"name":"two"}]}}`, `{"spec":{"boxes":[{"name":"two"},{"name":"%s"}]}}`},
		[]string{"/spec/pin", "/spec/credentials/a", "/spec/boxes/0/code", "/spec", "/spec/boxes/0", "/spec/color"}, nil},
	{"/apis/apps/v1/namespaces/%s/deployments", "apps/v1", "Deployment", func(v string) string {
		return `"spec":{"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"i","env":[{"name":"A","value":"` + v + `"}]}]}}}`
	}, []string{`{"spec":{"template":{"spec":{"containers":[{"name":"c","image":"j","env":[{"name":"A","value":"%s"}]}]}}}}`, `{"spec":{"template":{"spec":{"containers":[{"name":"%s","image":"j"}]}}}}`},
		[]string{"/spec/template/spec/containers/0/env/0/value", "/spec/template/spec/containers/0", "/spec/template/spec/containers/0/image", "/spec/replicas"}, nil},
	{"/apis/batch/v1/namespaces/%s/jobs", "batch/v1", "Job", func(string) string {
		return `"spec":{"suspend":true,"completions":9,"manualSelector":true,"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},"spec":{"restartPolicy":"Never","containers":[{"name":"c","image":"i"}]}}}`
	}, []string{`{"metadata":{"labels":{"a":"%s"}}}`}, []string{"/status/succeeded", "/status", "/spec/suspend"}, func(v string) string {
		return fmt.Sprintf(`{"status":{"succeeded":%d}}`, 1+slices.Index(hiddenValues, v))
	}},
}

// copies are pointers to what repeats hidden values, and to what contains it.
var copies = []string{appliedPointer, appliedPointer, appliedPointer, appliedPointer, "/metadata/annotations", "/metadata", "/metadata/managedFields/0/fieldsV1", "/metadata/managedFields/0/fieldsV1/f:data/f:b25l", "/metadata/managedFields/1"}

// hiddenValues are those of the worlds, and another one.
var hiddenValues = []string{"b25l", "dHdv", "dGhyZWU="}

type hiddenStep struct{ method, suffix, contentType, accept, body string }

func pickOf[T any](r *rand.Rand, from ...T) T { return from[r.IntN(len(from))] }

// drawStep draws a request about an object; shown is what the caller has seen of it last.
func (k hiddenKind) drawStep(t *testing.T, r *rand.Rand, shown string) hiddenStep {
	t.Helper()
	value := pickOf(r, hiddenValues...)
	set := fmt.Sprintf(pickOf(r, k.sets...), value)
	guess := appliedIn(t, k.object(t, "x", "no", value, true))
	record := `{"metadata":{"name":"x","annotations":{"` + appliedKey + `":` + quoted(guess) + `}}}`
	s := hiddenStep{accept: pickOf(r, "application/json", "application/json", "application/yaml", "application/json;as=Table;v=v1;g=meta.k8s.io,application/json", protobuf+",application/json",
		"application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io,application/json")}
	query := pickOf(r, "?fieldManager=blind", "?fieldManager=blind", "?fieldManager=other", "?fieldManager=blind&dryRun=All", "?fieldManager=blind&fieldValidation=Strict")
	switch r.IntN(14) {
	case 0, 1:
		s.method, s.suffix = http.MethodGet, pickOf(r, "/x", "", "?limit=1", "?fieldSelector=spec.pin%3D"+value, "?fieldSelector=status.successful%3D1", "?fieldSelector=status.successful%3D2", "?fieldSelector=metadata.name%3Dx", "?labelSelector=a")
	case 2, 10:
		s.method, s.suffix, s.contentType = http.MethodPatch, "/x"+query, pickOf(r, mergePatch, strategic)
		s.body = pickOf(r, set, set, record, strings.Replace(set, "{", strings.TrimSuffix(record, "}")+",", 1), `{"metadata":{"labels":{"a":"`+pickOf(r, "b", "c", "not valid!")+`"}}}`, `{"metadata":{"annotations":{"proviso.dev/hidden":"x"}}}`, `{"spec":null}`, `{"metadata":{"managedFields":[{}]}}`, `{"data":{"$patch":"delete"}}`, `{"metadata":{"resourceVersion":"1"}}`)
	case 3, 4:
		s.method, s.suffix, s.contentType = http.MethodPatch, "/x"+query, jsonPatch
		at, from := pickOf(r, k.pointers...), pickOf(r, copies...)
		s.body = pickOf(r, fmt.Sprintf(`[{"op":%q,"path":%q,"value":%q}]`, pickOf(r, "add", "replace", "test", "remove"), from, pickOf(r, guess, "{}")),
			fmt.Sprintf(`[{"op":%q,"from":%q,"path":%q}]`, pickOf(r, "copy", "move"), from, "/metadata/annotations/leak"), fmt.Sprintf(`[{"op":%q,"path":%q,"value":%q}]`, pickOf(r, "add", "replace", "test", "remove"), at, value),
			fmt.Sprintf(`[{"op":%q,"from":%q,"path":"/metadata/labels"}]`, pickOf(r, "copy", "move"), at),
			fmt.Sprintf(`[{"op":"test","path":"/metadata/name","value":"x"},{"op":"add","path":%q,"value":{"k":%q}}]`, at, value))
	case 5, 6:
		s.method, s.suffix, s.contentType = http.MethodPatch, "/x"+query+pickOf(r, "", "&force=true"), applyPatch
		rest := strings.TrimPrefix(pickOf(r, set, record, `{"metadata":{"name":"x"}}`, `{"metadata":{"name":"x","labels":{"m":"n"}}}`), "{")
		s.body = fmt.Sprintf(`{"apiVersion":%q,"kind":%q,%s`, k.api, k.kind, rest)
		if !strings.Contains(s.body, `"metadata"`) {
			s.body = strings.Replace(s.body, `"kind"`, `"metadata":{"name":"x"},"kind"`, 1)
		}
	case 7, 8:
		s.method, s.suffix, s.contentType = http.MethodPut, "/x"+query, jsonBody
		s.body = pickOf(r, shown, shown, strings.Replace(shown, `"metadata":{`, `"metadata":{"labels":{"p":"q"},`, 1), k.object(t, "x", "no", value, true),
			fmt.Sprintf(`{"apiVersion":%q,"kind":%q,"metadata":{"name":"x"},%s}`, k.api, k.kind, k.body(value)),
			fmt.Sprintf(`{"apiVersion":%q,"kind":%q,"metadata":{"name":"x"}}`, k.api, k.kind))
	case 11:
		s.method, s.suffix = http.MethodGet, "/x/"+pickOf(r, "scale", "status", "none")
		if r.IntN(2) == 0 {
			s.method, s.suffix, s.contentType = http.MethodPatch, s.suffix+query, pickOf(r, mergePatch, strategic, jsonPatch)
			s.body = pickOf(r, set, `{"status":{"replicas":1}}`, `{"spec":{"replicas":2}}`, `[{"op":"test","path":"`+pickOf(r, k.pointers...)+`","value":"`+value+`"}]`)
		}
	case 12:
		s.method, s.suffix, s.contentType = http.MethodPost, query, jsonBody
		s.body = fmt.Sprintf(`{"apiVersion":%q,"kind":%q,"metadata":{"name":"x"},%s}`, k.api, k.kind, k.body(value))
		if r.IntN(2) == 0 {
			s.suffix, s.body = "?dryRun=All", strings.Replace(s.body, `"name":"x"`, `"name":"y"`, 1)
		}
	case 13:
		s.method, s.suffix = http.MethodGet, "/x"
		if r.IntN(8) == 0 { // it takes a second
			s.suffix = "?watch=true&timeoutSeconds=1" + pickOf(r, "&resourceVersion=0", "&sendInitialEvents=true&allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan", "&fieldSelector=metadata.name%3Dx&resourceVersion=0")
			if strings.HasPrefix(s.accept, protobuf) {
				s.accept = "application/json"
			}
		}
	case 9:
		s.method, s.suffix = http.MethodDelete, pickOf(r, "/x?dryRun=All", "?dryRun=All", "/x?dryRun=All&propagationPolicy=Foreground", "/x")
	}
	return s
}

const protobuf = "application/vnd.kubernetes.protobuf"

// legible is an answer as JSON, if it is protobuf.
func legible(t *testing.T, answer string) string {
	t.Helper()
	head, body, _ := strings.Cut(answer, "\n")
	if !strings.Contains(head, protobuf) {
		return answer
	}
	object, _, err := scheme.Codecs.UniversalDeserializer().Decode([]byte(body), nil, nil)
	if err != nil {
		t.Fatalf("%s: %v", head, err)
	}
	text, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	return head + "\n" + string(text)
}

// pieces are the parts of an answer, in order: managers are listed by their times, which may differ.
func pieces(answer string) []string {
	all := strings.FieldsFunc(answer, func(r rune) bool { return strings.ContainsRune(",\n{}[]", r) })
	slices.Sort(all)
	return all
}

var writtenVersion = regexp.MustCompile(`"(resourceVersion|uid)":"[^"]*",?`)

// squint gives a user the rights of blind, and in one namespace those to see some hidden fields of objects with a
// label.
func (f *fieldWorld) squint(t *testing.T, namespace string) {
	t.Helper()
	f.grant(t, "squint", []string{"", "apps", "batch", "example.com"}, []string{"secrets", "deployments", "jobs", "safes", "deployments/scale", "deployments/status", "jobs/status", "safes/status"}, "get", "list", "watch", "create", "update", "patch", "delete", "deletecollection")
	f.openPolicy(t, namespace)
	f.admin(t, http.MethodPost, fmt.Sprintf(policyRoles, namespace, "roles"), "application/yaml",
		`{apiVersion: authorization.proviso.dev/v1alpha1, kind: Role, metadata: {name: open}, rules: [{verbs: ["reveal:example.com/secretdata", "reveal:example.com/env", "reveal:example.com/credentials"], resourceKinds: [secrets, deployments, safes.example.com], where: 'resource.metadata.labels["open"] == "yes"'}]}`)
	f.admin(t, http.MethodPost, fmt.Sprintf(policyRoles, namespace, "rolebindings"), "application/yaml",
		`{apiVersion: authorization.proviso.dev/v1alpha1, kind: RoleBinding, metadata: {name: open}, roleRef: {namespace: `+namespace+`, name: open}, userNames: [squint]}`)
	path := fmt.Sprintf(hiddenKinds[0].path, namespace)
	f.admin(t, http.MethodPost, path, jsonBody, `{"metadata":{"name":"probe","labels":{"open":"yes"}},"data":{"k":"b25l"}}`)
	f.settled(t, "the right to see", func() bool {
		seen, _ := json.Marshal(f.as(t, "squint", http.MethodGet, path+"/probe", jsonBody, "").body)
		return strings.Contains(string(seen), "b25l")
	})
	f.admin(t, http.MethodDelete, path+"/probe", jsonBody, "")
}

// HF-10: whatever a caller who does not see hidden values tries, the answers are the same whatever the values are.
// HIDDEN_STEPS=100000 searches for long.
func TestSearchForHiddenValues(t *testing.T) {
	f, _ := hiding(t)
	steps, seed := 300, uint64(1)
	if n, err := strconv.Atoi(os.Getenv("HIDDEN_STEPS")); err == nil {
		steps, seed = n, rand.Uint64()
	}
	worlds := []string{"searcha", "searchb"}
	for _, w := range worlds {
		f.namespace(t, w)
		f.squint(t, w)
	}
	r := rand.New(rand.NewPCG(seed, 1))
	t.Logf("seed %d", seed)
	reached := map[int]int{}
	for done := 0; done < steps; {
		k, caller := pickOf(r, hiddenKinds...), pickOf(r, "blind", "blind", "squint")
		applied := r.IntN(3) > 0
		for i, w := range worlds {
			path := fmt.Sprintf(k.path, w)
			f.as(t, "admin", http.MethodDelete, path+"/x?propagationPolicy=Background", jsonBody, "")
			f.admin(t, http.MethodPost, path+"?fieldManager=admin", jsonBody, k.object(t, "x", "no", hiddenValues[i], applied))
			f.as(t, "admin", http.MethodPost, path+"?fieldManager=admin", jsonBody, k.object(t, "open", "yes", hiddenValues[0], applied))
			if k.status != nil {
				f.admin(t, http.MethodPatch, path+"/x/status?fieldManager=controller", mergePatch, k.status(hiddenValues[i]))
			}
		}
		var tried []hiddenStep
		for range 1 + r.IntN(6) {
			seen := make([]string, len(worlds))
			for i, w := range worlds {
				text, _ := json.Marshal(f.as(t, caller, http.MethodGet, fmt.Sprintf(k.path, w)+"/x", jsonBody, "").body)
				seen[i] = string(text)
			}
			again := rand.NewPCG(r.Uint64(), 2)
			answers := make([]string, len(worlds))
			var step hiddenStep
			var asking sync.WaitGroup
			for i, w := range worlds {
				source := *again
				s := k.drawStep(t, rand.New(&source), writtenVersion.ReplaceAllString(seen[i], ""))
				step = s
				if strings.Contains(s.suffix, "watch=true") { // any state may be watched, and has to be the same in both worlds
					f.admin(t, http.MethodGet, fmt.Sprintf(k.path, w), jsonBody, "") // waits for the watch cache
				}
				asking.Go(func() {
					got := legible(t, f.raw(t, caller, s.method, fmt.Sprintf(k.path, w)+s.suffix, s.contentType, s.accept, s.body))
					answers[i] = volatile.ReplaceAllString(strings.ReplaceAll(got, w, "world"), "")
				})
			}
			asking.Wait()
			if t.Failed() {
				t.FailNow()
			}
			tried = append(tried, step)
			if done++; done%5000 == 0 {
				t.Logf("%d steps", done)
			}
			code, _ := strconv.Atoi(answers[0][:3])
			if reached[code/100]++; code == http.StatusUnauthorized {
				t.Fatalf("seed %d: after %d steps the caller is not known any more, and learns nothing: %s", seed, done, answers[0])
			}
			if diff := cmp.Diff(pieces(answers[0]), pieces(answers[1])); diff != "" {
				t.Fatalf("seed %d: %s after %d steps of %s differs: %+v\n%s", seed, k.kind, len(tried), caller, tried, diff)
			}
			for _, value := range hiddenValues {
				if caller == "blind" && strings.Contains(answers[0], value) && !strings.Contains(fmt.Sprint(tried), value) {
					t.Fatalf("seed %d: %+v shows %s: %s", seed, step, value, answers[0])
				}
			}
		}
	}
	t.Logf("%d steps, by class of their answers: %v", steps, reached)
	if reached[2] < steps/4 {
		t.Errorf("only %d of %d steps got an answer", reached[2], steps)
	}
}
