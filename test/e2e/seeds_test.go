package e2e

import (
	"encoding/json"
	"io/fs"
	"maps"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	"sigs.k8s.io/yaml"
)

const seedsDir = "testdata/seeds"

// seeds applies the examples of the designs and asks for their effect.
type seeds struct {
	*server
	t                          *testing.T
	clark, hubert, edgar, bots person
}

// TestSeeds: every example of the five designs works as it is written, but for what its file lists (CA-22, CA-23,
// PO-13, DA-14, FP-3). testdata/seeds has one file for each, and each has a step here.
func TestSeeds(t *testing.T) {
	t.Parallel()
	s := &seeds{server: serve(t, tempDir(t)+"/d", "--audit-dynamic-allow-insecure-sinks"), t: t}
	steps := map[string]func(t *testing.T){
		"policy/02-project-admins.yaml":                   s.projectAdmins,
		"policy/03-editors.yaml":                          s.editors,
		"policy/04-resource-access-review.yaml":           s.whoCan,
		"policy/05-resource-access-review-answer.yaml":    nil, // with the question
		"policy/06-subject-access-review.yaml":            s.mayClark,
		"policy/07-subject-access-review-answer.yaml":     nil,
		"policy/08-containers.yaml":                       s.containers,
		"policy/09-labelers.yaml":                         s.labelers,
		"policy/10-fat-fingered-editor.yaml":              s.fatFingered,
		"policy/11-kubelet.yaml":                          s.kubelet,
		"policy/12-kubelet-attributes.yaml":               s.kubeletAttributes,
		"audit/01-sink-and-class.yaml":                    s.sinkAndClass,
		"audit/02-minimal-policy.yaml":                    s.minimalPolicy,
		"audit/03-minimal-policy-compiled.yaml":           s.compiledPolicy,
		"audit/04-sample-class.yaml":                      s.sampleClass,
		"audit/05-selectors.yaml":                         s.selectors,
		"audit/06-example-1.yaml":                         s.example1,
		"conditional/01-authorization-configuration.yaml": webhookSeeds,
		"conditional/02-impersonation-answer.yaml":        nil, // what the webhook answers
		"conditional/03-node-condition.yaml":              s.nodeCondition,
		"conditional/04-partial-evaluation.yaml":          s.partialEvaluation,
		"conditional/05-impersonation-policy.yaml":        s.impersonationPolicy,
		"fields/01-schema.yaml":                           s.schema,
		"policy/01-default-roles.yaml":                    s.defaultRoles, // last: it replaces the roles that are shipped
	}
	order := slices.Sorted(maps.Keys(steps))
	order = append(slices.DeleteFunc(order, func(f string) bool { return strings.HasPrefix(f, "policy/") }),
		slices.DeleteFunc(slices.Sorted(maps.Keys(steps)), func(f string) bool { return !strings.HasPrefix(f, "policy/") || f == "policy/01-default-roles.yaml" })...)
	order = append(order, "policy/01-default-roles.yaml")
	s.begin()
	for _, file := range order {
		text := read(t, filepath.Join(seedsDir, file))
		if !strings.HasPrefix(text, "# adapted: ") {
			t.Errorf("%s does not say what was adapted", file)
		}
		if step := steps[file]; step != nil {
			t.Run(file, step)
		}
	}
	found := 0
	if err := filepath.WalkDir(seedsDir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(path) != ".yaml" {
			return err
		}
		found++
		if file, _ := filepath.Rel(seedsDir, path); !slices.Contains(order, filepath.ToSlash(file)) {
			t.Errorf("%s has no step", path)
		}
		return nil
	}); err != nil || found != len(steps) {
		t.Errorf("%d files, %d steps: %v", found, len(steps), err)
	}
}

func seedFile(file string) string { return seedsDir + "/" + file }

// begin makes what the texts take for granted: the people, the project and the kind DeploymentConfig.
func (s *seeds) begin() {
	s.clark, s.hubert, s.edgar, s.bots = s.person("Clark"), s.person("Hubert"), s.person("Edgar"), s.person("ProtectorBot")
	for _, ns := range []string{"hammer", "anvil", "vault", "my-namespace"} {
		s.kubectl("create", "namespace", ns)
	}
	s.apply(`
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: deploymentconfigs.apps.openshift.io}
spec:
  group: apps.openshift.io
  scope: Namespaced
  names: {kind: DeploymentConfig, plural: deploymentconfigs, singular: deploymentconfig}
  versions:
  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}
`)
	s.await("the default roles", func() bool {
		_, err := s.try(binding("clark", "master", "cluster-admin", "userNames: [Clark]")+"---"+binding("admins", "master", "cluster-admin", "groupNames: [cluster-admins]"), "apply", "-f", "-")
		return err == nil
	})
	s.eventually("Clark to be cluster admin", s.clark, "", "get", "namespaces")
}

func binding(name, namespace, role, who string) string {
	return "\napiVersion: authorization.proviso.dev/v1alpha1\nkind: RoleBinding\nmetadata: {name: " + name + ", namespace: " + namespace + "}\nroleRef: {namespace: master, name: " + role + "}\n" + who + "\n"
}

// eventually waits until somebody may do something: a policy takes effect soon, not at once.
func (s *seeds) eventually(what string, who person, stdin string, args ...string) {
	s.t.Helper()
	s.await(what, func() bool {
		_, err := s.try(stdin, append([]string{"--kubeconfig", who.kubeconfig}, args...)...)
		return err == nil
	})
}

func config(name string) string {
	return `{apiVersion: apps.openshift.io/v1, kind: DeploymentConfig, metadata: {name: ` + name + `, namespace: hammer}, spec: {replicas: 1}}`
}

func (s *seeds) projectAdmins(*testing.T) {
	s.clark.may("apply", "-f", seedFile("policy/02-project-admins.yaml"))
	s.eventually("Hubert to be admin of hammer", s.hubert, "", "get", "rolebindings.authorization.proviso.dev", "-n", "hammer")
	s.hubert.mayNot("", "get", "rolebindings.authorization.proviso.dev", "-n", "anvil")
}

func (s *seeds) editors(*testing.T) {
	s.edgar.mayNot("", "get", "deploymentconfigs", "-n", "hammer")
	s.hubert.may("apply", "-f", seedFile("policy/03-editors.yaml"))
	s.eventually("Edgar to edit", s.edgar, config("plain"), "create", "-f", "-")
	s.edgar.mayNot("", "get", "deploymentconfigs", "-n", "anvil")
	s.edgar.mayNot("", "get", "rolebindings.authorization.proviso.dev", "-n", "hammer")
	// "By default, Hubert does not have sufficient power to create new Roles because there is not an existing Policy
	// object."
	if out, err := s.try("", "--kubeconfig", s.hubert.kubeconfig, "apply", "-f", seedFile("policy/09-labelers.yaml")); err == nil || !strings.Contains(out, "Policy") {
		s.t.Errorf("roles without a policy: %v\n%s", err, out)
	}
}

// whoCan: those of the answer, and others whom the text does not know of.
func (s *seeds) whoCan(t *testing.T) {
	s.apply(binding("hubert", "default", "edit", "userNames: [Hubert]"))
	want := struct {
		Status struct{ UserNames, GroupNames []string }
	}{}
	if err := yaml.Unmarshal([]byte(read(t, seedFile("policy/05-resource-access-review-answer.yaml"))), &want); err != nil {
		t.Fatal(err)
	}
	var got map[string]any
	has := func(list string, names []string) bool {
		have, _ := got[list].([]any)
		for _, name := range names {
			if !slices.Contains(have, any(name)) {
				return false
			}
		}
		return len(names) > 0
	}
	s.await("the answer", func() bool {
		got = s.review(t, "policy/04-resource-access-review.yaml")
		return has("userNames", want.Status.UserNames) && has("groupNames", want.Status.GroupNames)
	})
	if has("userNames", []string{"Edgar"}) {
		t.Errorf("Edgar, who is an editor of hammer, can in default: %v", got)
	}
}

func (s *seeds) containers(*testing.T) {
	s.hubert.mayNot("", "create", "-f", seedFile("policy/08-containers.yaml"))
	s.clark.may("apply", "-f", seedFile("policy/08-containers.yaml"))
}

func (s *seeds) labelers(*testing.T) {
	s.hubert.may("apply", "-f", seedFile("policy/09-labelers.yaml"))
	s.eventually("the bot to label", s.bots, "", "label", "deploymentconfig", "plain", "tier=low", "-n", "hammer")
	s.bots.mayNot("", "patch", "deploymentconfig", "plain", "-n", "hammer", "--type=merge", "-p", `{"spec":{"replicas":2}}`)
	s.bots.mayNot("", "delete", "deploymentconfig", "plain", "-n", "hammer")
}

func (s *seeds) fatFingered(*testing.T) {
	s.apply(config("kept"))
	s.bots.may("label", "deploymentconfig", "kept", "protected=yes", "-n", "hammer")
	s.hubert.may("apply", "-f", seedFile("policy/10-fat-fingered-editor.yaml"))
	s.await("Edgar to be kept from deleting", func() bool {
		out, err := s.try("", "--kubeconfig", s.edgar.kubeconfig, "delete", "deploymentconfig", "kept", "-n", "hammer", "--dry-run=server")
		return err != nil && strings.Contains(out, "fatFingeredEditor")
	})
	s.edgar.mayNot("fatFingeredEditor", "delete", "deploymentconfig", "kept", "-n", "hammer")
	s.edgar.may("delete", "deploymentconfig", "plain", "-n", "hammer")
	s.hubert.may("delete", "deploymentconfig", "kept", "-n", "hammer", "--dry-run=server")
}

// review posts a review and returns its status.
func (s *seeds) review(t *testing.T, file string) map[string]any {
	t.Helper()
	out, err := s.try("", "create", "-o", "json", "-f", seedFile(file))
	var answer struct{ Status map[string]any }
	if err == nil {
		err = json.Unmarshal([]byte(out), &answer)
	}
	if err != nil {
		t.Fatalf("%s: %v\n%s", file, err, out)
	}
	return answer.Status
}

func (s *seeds) mayClark(t *testing.T) {
	want := struct{ Status map[string]any }{}
	if err := yaml.Unmarshal([]byte(read(t, seedFile("policy/07-subject-access-review-answer.yaml"))), &want); err != nil {
		t.Fatal(err)
	}
	if got := s.review(t, "policy/06-subject-access-review.yaml"); got["allowed"] != want.Status["allowed"] {
		t.Errorf("%v", got)
	}
	edgar := strings.ReplaceAll(read(t, seedFile("policy/06-subject-access-review.yaml")), "Clark", "Edgar")
	if out, err := s.try(edgar, "create", "-o", "json", "-f", "-"); err != nil || strings.Contains(out, `"allowed": true`) {
		t.Errorf("Edgar in default: %v %s", err, out)
	}
}

func (s *seeds) kubelet(t *testing.T) {
	s.clark.may("apply", "-f", seedFile("policy/11-kubelet.yaml"))
	for name, node := range map[string]string{"here": "n1", "there": "n2"} {
		s.await("a pod", func() bool { // once its service account is there
			_, err := s.try("", "run", name, "--image=i", "--overrides", `{"spec":{"nodeName":"`+node+`"}}`)
			return err == nil
		})
	}
	as := func(args ...string) (string, error) {
		return s.try("", append([]string{"--as", "kubelet-01", "--as-user-extra", "authentication.kubernetes.io/node-name=n1"}, args...)...)
	}
	s.await("the kubelet to write its pod", func() bool {
		_, err := as("delete", "pod", "here", "--wait=false", "--dry-run=server") // patch and label get the pod first
		return err == nil
	})
	if out, err := as("delete", "pod", "there", "--wait=false", "--dry-run=server"); err == nil || !strings.Contains(out, "orbidden") {
		t.Errorf("delete of another node's pod: %v %s", err, out)
	}
	// RD-1, RD-4: it reads and watches its pods and nothing else.
	for query, want := range map[string]string{
		"get pods -o name":     "pod/here",
		"get pods -A -o name":  "pod/here",
		"get pod here -o name": "pod/here",
		"get pods -o name --field-selector spec.nodeName=n2": "",
	} {
		out, err := as(strings.Fields(query)...)
		lines := slices.DeleteFunc(strings.Fields(strings.ReplaceAll(out, " ", "_")), func(l string) bool { return strings.HasPrefix(l, "Warning:") })
		if err != nil || strings.Join(lines, " ") != want {
			t.Errorf("%s: %v %s", query, err, out)
		}
	}
	for query, refused := range map[string]string{"get pod there": `"there" not found`, "get pod nosuch": `"nosuch" not found`, "get nodes": "orbidden", "get secrets": "orbidden"} {
		if out, err := as(strings.Fields(query)...); err == nil || !strings.Contains(out, refused) {
			t.Errorf("%s: %v %s", query, err, out)
		}
	}
	watch := spawn(t, binary(t), "kubectl", "--kubeconfig", s.kubeconfig, "--as", "kubelet-01", "--as-user-extra", "authentication.kubernetes.io/node-name=n1", "get", "pods", "-w", "-o", "name")
	s.kubectl("run", "there-too", "--image=i", "--overrides", `{"spec":{"nodeName":"n2"}}`)
	s.kubectl("run", "here-too", "--image=i", "--overrides", `{"spec":{"nodeName":"n1"}}`)
	watch.await("a pod of its node", func() bool { return strings.Contains(watch.output.String(), "pod/here-too") })
	if out := watch.output.String(); strings.Contains(out, "there") {
		t.Errorf("the watch of the kubelet:\n%s", out)
	}
	watch.kill()
}

func (s *seeds) kubeletAttributes(t *testing.T) {
	status := s.review(t, "policy/12-kubelet-attributes.yaml")
	text, _ := json.Marshal(status["conditionalDecision"])
	if status["allowed"] != false || !strings.Contains(string(text), `the object's node is \"n1\"`) {
		t.Errorf("%v", status)
	}
}

// defaultRoles: the roles as the text has them, which an admin may write in the place of the shipped ones.
func (s *seeds) defaultRoles(t *testing.T) {
	s.kubectl("apply", "--server-side", "--force-conflicts", "-f", seedFile("policy/01-default-roles.yaml"))
	s.apply(binding("view", "anvil", "view", "userNames: [vera]") + "---" + binding("edit", "anvil", "edit", "userNames: [edna]") +
		"---" + binding("admin", "anvil", "admin", "userNames: [adam]") + "---" + binding("all", "master", "cluster-admin", "userNames: [carla]"))
	may := func(user, verb, resource string) bool {
		out, err := s.try("", "auth", "can-i", verb, resource, "--as", user, "-n", "anvil")
		return err == nil && strings.HasPrefix(out, "yes")
	}
	const roles, bindings, containers = "roles.authorization.proviso.dev", "rolebindings.authorization.proviso.dev", "policies.policy.proviso.dev"
	s.await("the roles", func() bool { return may("adam", "create", bindings) && !may("adam", "create", roles) })
	for _, tc := range []struct {
		user, verb, resource string
		want                 bool
	}{
		{"vera", "list", "pods", true}, {"vera", "create", "pods", false}, {"vera", "list", roles, false}, {"vera", "list", containers, false},
		{"edna", "create", "pods", true}, {"edna", "update", bindings, false}, {"edna", "list", roles, false}, {"edna", "create", "resourceaccessreviews.authorization.proviso.dev", false},
		{"adam", "create", "pods", true}, {"adam", "list", roles, true}, {"adam", "update", roles, false}, {"adam", "delete", "policybindings.policy.proviso.dev", false},
		{"carla", "delete", containers, true}, {"carla", "create", roles, true},
	} {
		if got := may(tc.user, tc.verb, tc.resource); got != tc.want {
			t.Errorf("%s %s %s: %v", tc.user, tc.verb, tc.resource, got)
		}
	}
}

func (s *seeds) nodeCondition(t *testing.T) {
	status := s.review(t, "conditional/03-node-condition.yaml")
	text, _ := json.Marshal(status["conditionalDecision"])
	if status["allowed"] != false || !strings.Contains(string(text), `"k8s.io/node-authorizer"`) || !strings.Contains(string(text), `\"nodeName\":\"foo\"`) {
		t.Errorf("%s", text)
	}
}

// partialEvaluation is Example 1 of the text: what Alice, Bob and Eve may create.
func (s *seeds) partialEvaluation(t *testing.T) {
	s.clark.may("apply", "-f", seedFile("conditional/04-partial-evaluation.yaml"))
	create := func(user, class string) (string, error) {
		return s.try(`{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {generateName: c-, namespace: default}, spec: {storageClassName: `+class+`, accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}`,
			"--as", user, "create", "-f", "-")
	}
	s.await("Bob's policy", func() bool { _, err := create("Bob", "prod"); return err == nil })
	if out, err := create("Alice", "dev"); err != nil {
		t.Errorf("Alice, dev: %s", out)
	}
	if out, err := create("Alice", "prod"); err == nil || !strings.Contains(out, "policy-2") {
		t.Errorf("Alice, prod: %v %s", err, out)
	}
	if out, err := create("Eve", "dev"); err == nil || strings.Contains(out, "was not met") {
		t.Errorf("Eve is refused without a look at the object: %v %s", err, out)
	}
	review := func(user string) string {
		out, err := s.try(`{apiVersion: authorization.k8s.io/v1, kind: SubjectAccessReview, spec: {user: `+user+`, groups: ["system:authenticated"], resourceAttributes: {verb: create, namespace: default, version: v1, resource: persistentvolumeclaims},
			authorizationOptions: {handledDecisionTypes: [Allow, Deny, NoOpinion, ConditionsMap, Union]}}}`, "create", "-o", "json", "-f", "-")
		if err != nil {
			t.Fatal(out)
		}
		return out
	}
	if out := review("Alice"); !strings.Contains(out, `"condition": "object.spec.storageClassName == \"dev\""`) {
		t.Errorf("the residual: %s", out)
	}
	if out := review("Bob"); !strings.Contains(out, `"allowed": true`) {
		t.Errorf("%s", out)
	}
	if out := review("Eve"); strings.Contains(out, "conditionalDecision") || strings.Contains(out, `"allowed": true`) {
		t.Errorf("%s", out)
	}
}

// impersonationPolicy: "lucas can only impersonate node foo, but only to get pods" (CA-19), with the verbs of 1.37.
func (s *seeds) impersonationPolicy(t *testing.T) {
	s.clark.may("apply", "-f", seedFile("conditional/05-impersonation-policy.yaml"))
	s.apply(binding("nodes", "master", "view", `userNames: ["system:node:foo", "system:node:bar"]`))
	onlyGetsPods(t, s.server)
}

// onlyGetsPods acts as lucas, who may act as node foo to get pods. The nodes themselves may read everything.
func onlyGetsPods(t *testing.T, s *server) {
	t.Helper()
	lucas := s.person("lucas")
	as := func(node string, args ...string) string {
		out, _ := s.try("", append([]string{"--kubeconfig", lucas.kubeconfig, "--as", "system:node:" + node}, args...)...)
		return out
	}
	s.await("lucas to get a pod as node foo", func() bool { return strings.Contains(as("foo", "get", "pod", "x"), "NotFound") })
	for node, all := range map[string][][]string{
		"foo": {{"get", "pods"}, {"get", "configmap", "x"}, {"delete", "pod", "x"}},
		"bar": {{"get", "pod", "x"}},
	} {
		for _, args := range all {
			if out := as(node, args...); !strings.Contains(out, "orbidden") {
				t.Errorf("as node %s: kubectl %v: %s", node, args, out)
			}
		}
	}
	if out := as("foo", "get", "pod", "x"); !strings.Contains(out, "NotFound") {
		t.Errorf("get a pod as node foo again: %s", out)
	}
}

// webhookSeeds runs a server whose only authorizer, beside Policy, is the webhook of the text, which answers as the
// text has it (CA-17, CA-19).
func webhookSeeds(t *testing.T) {
	answer, err := yaml.YAMLToJSON([]byte(read(t, seedFile("conditional/02-impersonation-answer.yaml"))))
	if err != nil {
		t.Fatal(err)
	}
	hook := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var review authorizationv1.SubjectAccessReview
		if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
			t.Error(err)
		}
		text := answer
		if at := review.Spec.ResourceAttributes; at == nil || !strings.HasPrefix(at.Verb, "impersonate") || strings.HasPrefix(at.Verb, "impersonate:") {
			allowed := at != nil && at.Verb == "impersonate:arbitrary-node" && at.Resource == "nodes" && at.Group == "authentication.k8s.io" && at.Name == "foo"
			text, _ = json.Marshal(m{"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "status": m{"allowed": allowed}})
		} else if at.Verb == "impersonate" {
			text = []byte(`{"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "status": {"allowed": false}}`) // of another user
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(text)
	}))
	t.Cleanup(hook.Close)
	kubeconfig := strings.ReplaceAll(read(t, hookKubeconfig(t, hook)), `"conditions"`, `"authorization-conditions"`)
	kubeconfigPath, configPath := filepath.Join(tempDir(t), "hook.kubeconfig"), filepath.Join(tempDir(t), "authorization.yaml")
	write(t, kubeconfigPath, kubeconfig)
	write(t, configPath, strings.ReplaceAll(read(t, seedFile("conditional/01-authorization-configuration.yaml")), "KUBECONFIG", kubeconfigPath))
	s := serve(t, tempDir(t)+"/d", "--authorization-config", configPath)
	s.await("the default roles", func() bool {
		_, err := s.try(binding("nodes", "master", "view", `userNames: ["system:node:foo", "system:node:bar"]`), "apply", "-f", "-")
		return err == nil
	})
	onlyGetsPods(t, s)
	s.stop()
}

// schema: the declarations of the text in one definition, and who may change what by them (FP-3).
func (s *seeds) schema(t *testing.T) {
	s.kubectl("apply", "-f", seedFile("fields/01-schema.yaml"))
	s.established("foos.example.com")
	for user, verb := range map[string]string{"labeler": "granular:label(mycompany.example.com)", "scheduler": "granular:nodeAssignment", "owner": "granular:specification", "marker": "granular:labels"} {
		s.kubectl("create", "clusterrole", user, "--verb=get", "--verb=granular", "--verb="+verb, "--resource=foos.example.com")
		s.kubectl("create", "clusterrolebinding", user, "--clusterrole="+user, "--user="+user)
	}
	s.apply("{apiVersion: example.com/v1, kind: Foo, metadata: {name: f, namespace: default}, spec: {size: 1}}")
	patch := func(user, spec string) (string, error) {
		return s.try("", "--as", user, "patch", "foo", "f", "--type=merge", "--dry-run=server", "-p", `{"spec":`+spec+`}`)
	}
	const mine, others, node, size = `{"marks":{"mycompany.example.com/FooLabel":"x"}}`, `{"marks":{"other.com/FooLabel":"x"}}`, `{"node":"n"}`, `{"size":2}`
	s.await("the declarations", func() bool {
		_, labels := patch("labeler", mine)
		_, schedules := patch("scheduler", node)
		return labels == nil && schedules == nil
	})
	for _, tc := range []struct{ user, spec, refused string }{
		{"labeler", mine, ""},
		{"labeler", others, "granular:label(other.com)"},
		{"labeler", size, "granular:specification"},
		{"scheduler", node, ""},
		{"scheduler", size, "granular:specification"},
		{"scheduler", mine, "granular:label(mycompany.example.com)"},
		{"marker", others, ""},
		{"marker", node, "granular:nodeAssignment"},
		{"owner", `{"size":2,"node":"n","marks":{"other.com/x":"y"}}`, ""},
	} {
		out, err := patch(tc.user, tc.spec)
		if (tc.refused == "") != (err == nil) || !strings.Contains(out, tc.refused) {
			t.Errorf("%s %s: %v %s", tc.user, tc.spec, err, out)
		}
	}
	if live := s.kubectl("get", "crd", "foos.example.com", "-o", "yaml"); !strings.Contains(live, "x-kubernetes-permission-parameterized-by: label-key") {
		t.Errorf("shown otherwise than written: %s", live)
	}
	// Story 2: "Ordinary users must not be able to set this to true. Only admins may set it to true."
	s.apply(definition("Vessel", `{triggerSelfDestructOnSecurityBreach: {type: boolean,
      x-kubernetes-permission-verb: example.com/selfDestruct, x-kubernetes-permission-exclusive: true, x-kubernetes-permission-exclusive-when: self == true}}`))
	s.established("vessels.example.com")
	s.kubectl("create", "clusterrole", "vessels", "--verb=get,create,update,patch", "--resource=vessels.example.com")
	s.kubectl("create", "clusterrolebinding", "vessels", "--clusterrole=vessels", "--user=ordinary", "--user=trusted")
	s.kubectl("create", "clusterrole", "destroyers", "--verb=granular:example.com/selfDestruct", "--resource=vessels.example.com")
	s.kubectl("create", "clusterrolebinding", "destroyers", "--clusterrole=destroyers", "--user=trusted")
	create := func(user, value string) (string, error) {
		return s.try("{apiVersion: example.com/v1, kind: Vessel, metadata: {generateName: v-, namespace: default}, spec: {triggerSelfDestructOnSecurityBreach: "+value+"}}",
			"--as", user, "create", "--dry-run=server", "-f", "-")
	}
	s.await("the declaration", func() bool {
		out, err := create("ordinary", "true")
		_, trusted := create("trusted", "true")
		return err != nil && strings.Contains(out, "granular:example.com/selfDestruct") && trusted == nil
	})
	if out, err := create("ordinary", "false"); err != nil {
		t.Errorf("false: %s", out)
	}
}
