package explorer

import (
	"encoding/json"
	"io"
	"io/fs"
	"net/http"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	"proviso.dev/proviso/internal/hosts/explorer/page"
)

// EX-2: every screen asks by a command, and shows the one that says the same. A value is never taken for a flag.
func TestScreensAreCommands(t *testing.T) {
	for _, tc := range []struct{ name, question, shown, args string }{
		{"who-can", `{"verb":"get","resource":"pods","namespace":"hammer","filter":"an"}`, "proviso who-can get pods -n hammer --blocked --filter an",
			"who-can --namespace=hammer --blocked --filter=an --output=json --rules --limit=100 --context=edgar -- get pods"},
		{"who-can", `{"verb":"get","resource":"/metrics","limit":7,"continue":"abc"}`, "proviso who-can get /metrics --blocked",
			"who-can --blocked --output=json --rules --limit=7 --continue=abc --context=edgar -- get /metrics"},
		{"who-can", `{"verb":"-o=name","resource":"--kubeconfig=/etc/passwd","namespace":"-x"}`, "proviso who-can -n=-x --blocked -- -o=name --kubeconfig=/etc/passwd",
			"who-can --namespace=-x --blocked --output=json --rules --limit=100 --context=edgar -- -o=name --kubeconfig=/etc/passwd"},
		{"why", `{"verb":"delete","resource":"pods","name":"it's","namespace":"hammer","subject":"edgar","stored":true}`,
			`proviso explain delete 'pods/it'\''s' -n hammer --user edgar --stored`, "explain --namespace=hammer --user=edgar --stored --output=json --context=edgar -- delete pods/it's"},
		{"why", `{"verb":"create","resource":"namespaces","object":"kind: Namespace"}`, "proviso explain create namespaces -A -f -",
			"explain --all-namespaces --filename=- --output=json --context=edgar -- create namespaces"},
		{"matrix", `{"subjects":["group:team-a"],"namespaces":["hammer","anvil"]}`, "proviso matrix --group team-a -n hammer -n anvil",
			"matrix --group=team-a --namespace=hammer --namespace=anvil --output=json --limit=100 --context=edgar"},
		{"rights", `{"namespace":"hammer"}`, "proviso can-i --list -n hammer", "can-i --list --namespace=hammer --output=json --context=edgar"},
		{"shadow", `{"namespace":"hammer"}`, "proviso shadow -n hammer", "shadow --namespace=hammer --output=json --context=edgar"},
		{"access", `{"namespace":"hammer"}`, "proviso access list -n hammer", "access list --namespace=hammer --output=json --context=edgar"},
		{"access", `{}`, "proviso access list -A", "access list --all-namespaces --output=json --context=edgar"},
		{"shadow", `{}`, "proviso shadow -A", "shadow --all-namespaces --output=json --context=edgar"},
		{"plan", `{"yaml":"kind: Role","delete":true}`, "proviso plan -f - --delete", "plan --filename=- --delete --output=json --limit=100 --context=edgar"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			h := newHouse(t, nil)
			s, _ := h.open(h.token)
			resp := h.ask(s, tc.name, tc.question, nil)
			var got answer
			if err := json.NewDecoder(resp.Body).Decode(&got); err != nil || resp.StatusCode != 200 {
				t.Fatalf("%s: %v", resp.Status, err)
			}
			if got.Command != tc.shown {
				t.Errorf("shown %s\nwant  %s", got.Command, tc.shown)
			}
			if args := strings.Join(h.asked[0], " "); args != tc.args {
				t.Errorf("run  %s\nwant %s", args, tc.args)
			}
		})
	}
}

// EX-5: what a command says about a failure is what the page gets, and a name that no name can be reaches no command.
func TestFailuresAreTheCommands(t *testing.T) {
	h := newHouse(t, nil)
	s, _ := h.open(h.token)
	for _, bad := range []string{`{"verb":"get"}`, `{"verb":"get","resource":"pods\u0000"}`, `{"verb":"get","resource":"a\nb"}`, `{"verb":"get","resource":"pods","surprise":1}`, `[]`, ``} {
		if resp := h.ask(s, "who-can", bad, nil); resp.StatusCode < 400 || resp.StatusCode >= 500 || len(h.asked) > 0 {
			t.Errorf("%s: %s, asked %v", bad, resp.Status, h.asked)
		}
	}
	h.out, h.code = "", 3
	resp := h.ask(s, "who-can", question, nil)
	text, _ := io.ReadAll(resp.Body)
	if resp.StatusCode != http.StatusUnprocessableEntity || !strings.Contains(string(text), `"error":"no such luck"`) {
		t.Errorf("%s: %s", resp.Status, text)
	}
	if resp := h.ask(s, "session", `{}`, nil); resp.StatusCode != http.StatusBadGateway {
		t.Errorf("a server that is not there: %s", resp.Status)
	}
}

// EX-2: events are sent as they come, with the command, and with the reason if there are none.
func TestAuditIsAStream(t *testing.T) {
	h := newHouse(t, nil)
	h.out = "{\"auditID\":\"1\"}\n{\"auditID\":\"2\"}\n"
	s, _ := h.open(h.token)
	text, _ := io.ReadAll(h.ask(s, "audit", `{"user":"edgar","verb":"get"}`, nil).Body)
	for _, want := range []string{`{"command":"proviso audit tail --user edgar --verb get"}`, `{"event":{"auditID":"1"}}`, `{"event":{"auditID":"2"}}`, `{"end":0}`} {
		if !strings.Contains(string(text), want+"\n") {
			t.Errorf("%s is missing in\n%s", want, text)
		}
	}
	h.out, h.code = "", 3
	text, _ = io.ReadAll(h.ask(s, "audit", `{}`, nil).Body)
	if !strings.Contains(string(text), `{"note":"proviso: no such luck"}`) || !strings.Contains(string(text), `{"end":3}`) {
		t.Errorf("got %s", text)
	}
}

// EX-2: a rule is decided as it is written, with the value of every part, and what is wrong with it is said.
func TestPlayground(t *testing.T) {
	h := newHouse(t, nil)
	s, _ := h.open(h.token)
	play := func(rule, object, verb string) (got playAnswer) {
		t.Helper()
		q, _ := json.Marshal(map[string]string{"rule": rule, "object": object, "verb": verb, "resource": "deployments.apps", "namespace": "hammer", "user": "edgar"})
		resp := h.ask(s, "playground", string(q), nil)
		if err := json.NewDecoder(resp.Body).Decode(&got); err != nil || resp.StatusCode != 200 {
			t.Fatalf("%s: %v", resp.Status, err)
		}
		return got
	}
	object := func(replicas string) string {
		return "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\nspec: {replicas: " + replicas + "}\n"
	}
	const few = "verbs: [create]\nresourceKinds: [deployments.apps]\nwhen: object.spec.replicas + 0 <= 5\n"
	if got := play(few, object("3"), "create"); got.Decision != "Allow" || len(got.Problems) > 0 {
		t.Errorf("three: %+v", got)
	}
	got := play(few, object("7"), "create")
	if got.Decision != "NoOpinion" {
		t.Errorf("seven: %+v", got)
	}
	if data, _ := json.Marshal(got.Trace); !strings.Contains(string(data), `{"depth":2,"expression":"object.spec.replicas","value":"7"}`) {
		t.Errorf("no value of the part in %s", data)
	}
	if !strings.Contains(got.File, "kind: PolicyTest") || !strings.Contains(got.File, "decision: Deny") {
		t.Errorf("file %s", got.File)
	}
	if got := play(few, "", "create"); got.Decision != "Conditional" {
		t.Errorf("without an object: %+v", got)
	}
	if got := play("deny: true\n"+few, object("3"), "create"); got.Decision != "Deny" {
		t.Errorf("a deny: %+v", got)
	}
	if got := play("deny: true\n"+few, object("7"), "create"); got.Decision != "Allow" {
		t.Errorf("a deny that does not apply: %+v", got)
	}
	if got := play("verbs: [create]\nresourceKinds: [deployments.apps]\nwhen: object.spec.replicas <=\n", object("3"), "create"); len(got.Problems) == 0 || got.Decision == "Allow" {
		t.Errorf("a rule that does not compile: %+v", got)
	}
	if got := play("verbs: [create", object("3"), "create"); len(got.Problems) == 0 || got.Decision != "" {
		t.Errorf("no YAML: %+v", got)
	}
	if len(h.asked) > 0 {
		t.Errorf("commands were run: %v", h.asked)
	}
}

// EX-3, EX-1: the assets are small, need no build, come from here alone, and make no HTML of what they are told.
func TestAssets(t *testing.T) {
	total := 0
	outside := regexp.MustCompile(`(https?:)?//[a-z0-9-]+\.[a-z]`)
	err := fs.WalkDir(page.Files, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := fs.ReadFile(page.Files, name)
		total += len(data)
		text := string(data)
		if !slices.Contains([]string{".js", ".mjs", ".html", ".css"}, path.Ext(name)) {
			return err
		}
		if place := outside.FindString(strings.ReplaceAll(text, "http://www.w3.org/", "")); place != "" {
			t.Errorf("%s names %s", name, place)
		}
		if strings.HasPrefix(name, "vendor/") {
			return err
		}
		for _, bad := range []string{"innerHTML", "dangerouslySetInnerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function", "<script>", " onclick=", "javascript:"} {
			if strings.Contains(text, bad) {
				t.Errorf("%s has %s", name, bad)
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if total > 300<<10 {
		t.Errorf("%d bytes of assets, want at most 300 KB", total)
	}
	for _, licence := range []string{"vendor/LICENSE-preact", "vendor/LICENSE-htm"} {
		if _, err := fs.Stat(page.Files, licence); err != nil {
			t.Error(err)
		}
	}
}

// EX-2: completion knows the fields and types of a schema, through references, lists and maps.
func TestFieldsOfASchema(t *testing.T) {
	var document map[string]*openSchema
	err := json.Unmarshal([]byte(`{
		"Deployment": {"type":"object","properties":{"spec":{"allOf":[{"$ref":"#/components/schemas/Spec"}]}},"x-kubernetes-group-version-kind":[{"group":"apps","version":"v1","kind":"Deployment"}]},
		"Spec": {"type":"object","properties":{"replicas":{"type":"integer"},"containers":{"type":"array","items":{"allOf":[{"$ref":"#/components/schemas/Container"}]}},"labels":{"type":"object","additionalProperties":{"type":"string"}}}},
		"Container": {"type":"object","properties":{"image":{"type":"string"},"loop":{"$ref":"#/components/schemas/Container"}}}}`), &document)
	if err != nil {
		t.Fatal(err)
	}
	deployment := document["Deployment"]
	spec := below(document, deployment, "spec")
	for name, want := range map[string]string{"replicas": "int", "containers": "list(object)", "labels": "map(string, string)"} {
		if got := typeOf(document, below(document, spec, name)); got != want {
			t.Errorf("%s is %s, want %s", name, got, want)
		}
	}
	if got := typeOf(document, below(document, below(document, spec, "containers"), "image")); got != "string" {
		t.Errorf("image is %s", got)
	}
	if below(document, below(document, spec, "nothing"), "more") != nil {
		t.Error("there is something below nothing")
	}
}
