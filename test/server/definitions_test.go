package server

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensionsclient "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/rest"
	kubectlcmd "k8s.io/kubectl/pkg/cmd"
	kubectlutil "k8s.io/kubectl/pkg/cmd/util"

	"proviso.dev/proviso/internal/features/fieldpermissions/crdschema"
	"proviso.dev/proviso/test/inprocess"
)

// exit is what kubectl ends with instead of ending the process.
type exit struct {
	text string
	code int
}

// kubectl runs the real command in this process and returns what it printed, to both streams, and whether it succeeded.
// file is what the argument "-" stands for.
func (s *instance) kubectl(file string, args ...string) (printed string, ok bool) {
	s.t.Helper()
	out, errOut, ok := s.kubectlStreams(file, args...)
	return out + errOut, ok
}

// kubectlStreams is kubectl with the streams apart. Warnings that other clients of this process get are among the
// second.
func (s *instance) kubectlStreams(file string, args ...string) (out, errOut string, ok bool) {
	s.t.Helper()
	if i := slices.Index(args, "-"); i >= 0 {
		args = slices.Clone(args)
		args[i] = s.dir + "/kubectl-input.yaml"
		if err := os.WriteFile(args[i], []byte(file), 0o600); err != nil {
			s.t.Fatal(err)
		}
	}
	var printed bytes.Buffer
	warned := &inprocess.Output{}
	streams := genericiooptions.IOStreams{In: strings.NewReader(""), Out: &printed, ErrOut: warned}
	flags := genericclioptions.NewConfigFlags(true).WithWarningPrinter(streams)
	args = append([]string{"--kubeconfig", s.dir + "/admin.kubeconfig", "--cache-dir", s.dir + "/kubectl-cache"}, args...)
	cmd := kubectlcmd.NewKubectlCommand(kubectlcmd.KubectlOptions{Arguments: append([]string{"kubectl"}, args...), ConfigFlags: flags, IOStreams: streams})
	cmd.SetArgs(args)
	cmd.SetOut(&printed)
	cmd.SetErr(warned)
	kubectlutil.BehaviorOnFatal(func(text string, code int) { panic(exit{text, code}) })
	defer kubectlutil.DefaultBehaviorOnFatal()
	defer func() {
		if e, fatal := recover().(exit); fatal {
			out, errOut, ok = printed.String(), warned.String()+e.text, e.code == 0
		}
	}()
	err := cmd.Execute()
	return printed.String(), warned.String(), err == nil
}

// rockets is the file of a CRD author. %s goes into the schema of the field fire.
const rockets = `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: rockets.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {kind: Rocket, listKind: RocketList, plural: rockets, singular: rocket}
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            properties:
              level: {type: string}
              fire: {type: boolean%s}
`

const firing = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/fire/"

// rocketFile is that file with some keys, by the end of their names.
func rocketFile(keys ...string) string {
	text := ""
	for _, k := range keys {
		text += ", x-kubernetes-permission-" + k
	}
	return fmt.Sprintf(rockets, text)
}

// shows checks what the definition shows for the field.
func (s *instance) shows(t *testing.T, name, want string) {
	t.Helper()
	out, _, ok := s.kubectlStreams("", "get", "crd", name, "-o", "json")
	var object map[string]any
	if err := json.Unmarshal([]byte(out), &object); err != nil || !ok {
		t.Fatalf("%v %s", err, out)
	}
	if got := fire(t, object); got != want {
		t.Errorf("shows %s, want %s", got, want)
	}
}

// withdraw deletes a definition and waits until it is gone, so that the next test finds none.
func (s *instance) withdraw(t *testing.T, name string) {
	t.Helper()
	definitions := apiextensionsclient.NewForConfigOrDie(s.admin).ApiextensionsV1().CustomResourceDefinitions()
	if err := definitions.Delete(context.Background(), name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
		t.Error(err)
	}
	nudge := s.nudger(t, name)
	s.await(name+" to be gone", func() (bool, error) {
		nudge()
		_, err := definitions.Get(context.Background(), name, metav1.GetOptions{})
		return apierrors.IsNotFound(err), nil
	})
}

// nudger changes a definition that is being deleted, every few seconds: upstream's finalizer forgets one that changes
// at the wrong moment, until its next resync minutes later or until it changes again.
func (s *instance) nudger(t *testing.T, name string) func() {
	definitions := apiextensionsclient.NewForConfigOrDie(s.admin).ApiextensionsV1().CustomResourceDefinitions()
	last := time.Now()
	return func() {
		if time.Since(last) < 5*time.Second {
			return
		}
		last = time.Now()
		nudged, err := definitions.Patch(context.Background(), name, types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"annotations":{"nudged":%q}}}`, last), metav1.PatchOptions{})
		if err == nil {
			t.Logf("nudged %s: %+v", name, nudged.Status.Conditions)
		}
	}
}

// does is kubectl, which succeeds.
func (s *instance) does(t *testing.T, stdin string, args ...string) string {
	t.Helper()
	out, ok := s.kubectl(stdin, args...)
	if !ok {
		t.Fatalf("kubectl %s: %s", strings.Join(args, " "), out)
	}
	return out
}

// fire is what the definition shows for the field.
func fire(t *testing.T, definition map[string]any) string {
	t.Helper()
	if annotations, _ := definition["metadata"].(map[string]any)["annotations"].(map[string]any); annotations[crdschema.Annotation] != nil {
		t.Error("the annotation is shown")
	}
	version := definition["spec"].(map[string]any)["versions"].([]any)[0].(map[string]any)
	node := version["schema"].(map[string]any)["openAPIV3Schema"].(map[string]any)
	for _, name := range []string{"spec", "fire"} {
		node = node["properties"].(map[string]any)[name].(map[string]any)
	}
	delete(node, "type")
	text, err := json.Marshal(node)
	if err != nil {
		t.Fatal(err)
	}
	return strings.ReplaceAll(string(text), `"x-kubernetes-permission-`, `"`)
}

// TestDeclarationsInSchemas: CRD authors declare field permissions in their schemas, with every command and client
// there is (FP-3).
func TestDeclarationsInSchemas(t *testing.T) {
	s := plain.get(t)
	t.Cleanup(func() { s.withdraw(t, "rockets.example.com") })
	const (
		name     = "rockets.example.com"
		declared = `{"exclusive":true,"verb":"example.com/fire"}`
	)
	full := rocketFile("verb: example.com/fire", "exclusive: true")
	shown := func(t *testing.T, want string) {
		t.Helper()
		s.shows(t, name, want)
	}
	quiet := func(t *testing.T, stdin string, args ...string) {
		t.Helper()
		if out := s.does(t, stdin, args...); strings.Contains(out, "field permissions") {
			t.Errorf("kubectl %s: %s", strings.Join(args, " "), out)
		}
	}
	warned := func(t *testing.T, stdin string, args ...string) {
		t.Helper()
		if out := s.does(t, stdin, args...); !strings.Contains(out, "Warning: field permissions that the schema left out are kept: v1 .spec.fire") {
			t.Errorf("kubectl %s: no warning: %s", strings.Join(args, " "), out)
		}
	}
	refused := func(t *testing.T, want, stdin string, args ...string) {
		t.Helper()
		if out, ok := s.kubectl(stdin, args...); ok || !strings.Contains(out, want) {
			t.Errorf("kubectl %s: %v %s\nwant %s", strings.Join(args, " "), ok, out, want)
		}
	}
	remove := func(t *testing.T) {
		t.Helper()
		deleteDefinition(t, s, name)
	}

	for _, command := range [][]string{{"apply", "-f", "-"}, {"create", "-f", "-"}, {"apply", "--server-side", "-f", "-"}} {
		t.Run(command[0]+fmt.Sprint(len(command)), func(t *testing.T) {
			remove(t)
			quiet(t, full, command...)
			shown(t, declared)
			if command[0] == "create" {
				return
			}
			quiet(t, full, command...)
			warned(t, rocketFile(), command...)
			shown(t, declared)
			quiet(t, rocketFile("verb: example.com/fire", "exclusive: null"), command...)
			shown(t, `{"verb":"example.com/fire"}`)
			quiet(t, rocketFile("verb: null"), command...)
			shown(t, `{}`)
			quiet(t, full, command...)
			shown(t, declared)
			refused(t, `spec.versions[0].schema.openAPIV3Schema.properties[spec].properties[fire].x-kubernetes-permission-verb: Invalid value: "Fire"`, rocketFile("verb: Fire"), command...)
			// The stock schema still has its say about everything else.
			refused(t, "x-unknown", strings.Replace(full, "boolean", "boolean, x-unknown: 1", 1), command...)
			shown(t, declared)
			quiet(t, rocketFile("verb: example.com/ignite", "exclusive: true"), append(command, "--dry-run=server")...)
			shown(t, declared)
		})
	}
	t.Run("apply says what changed", func(t *testing.T) {
		remove(t)
		s.does(t, full, "apply", "-f", "-")
		if out := s.does(t, full, "apply", "-f", "-"); !strings.Contains(out, "unchanged") {
			t.Error(out)
		}
		if out := s.does(t, rocketFile("verb: example.com/fire", "exclusive: false"), "apply", "-f", "-"); !strings.Contains(out, "configured") {
			t.Error(out)
		}
		shown(t, `{"exclusive":false,"verb":"example.com/fire"}`)
	})
	t.Run("replace", func(t *testing.T) {
		live := func() string {
			out, errOut, ok := s.kubectlStreams("", "get", "crd", name, "-o", "yaml")
			if !ok {
				t.Fatal(errOut)
			}
			return out
		}
		quiet(t, strings.Replace(live(), "permission-exclusive: false", "permission-exclusive: true", 1), "replace", "-f", "-")
		shown(t, declared)
		var without []string
		for _, line := range strings.Split(live(), "\n") {
			if !strings.Contains(line, "x-kubernetes-permission-") {
				without = append(without, line)
			}
		}
		warned(t, strings.Join(without, "\n"), "replace", "-f", "-")
		shown(t, declared)
	})
	t.Run("patch", func(t *testing.T) {
		quiet(t, "", "patch", "crd", name, "--type=json", "-p", `[{"op":"test","path":"`+firing+`x-kubernetes-permission-exclusive","value":true},{"op":"remove","path":"`+firing+`x-kubernetes-permission-exclusive"}]`)
		shown(t, `{"verb":"example.com/fire"}`)
		quiet(t, "", "patch", "crd", name, "--type=json", "-p", `[{"op":"add","path":"`+firing+`x-kubernetes-permission-exclusive","value":true}]`)
		shown(t, declared)
		warned(t, "", "patch", "crd", name, "--type=json", "-p", `[{"op":"add","path":"`+firing+`description","value":"x"}]`)
		refused(t, "", "", "patch", "crd", name, "--type=json", "-p", `[{"op":"test","path":"`+firing+`x-kubernetes-permission-exclusive","value":false}]`)
		versions := func(keys string) string {
			return `{"spec":{"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object","properties":{"spec":{"type":"object","properties":{"fire":{"type":"boolean"` + keys + `}}}}}}}]}}`
		}
		for _, kind := range []string{"merge", "strategic"} {
			quiet(t, "", "patch", "crd", name, "--type="+kind, "-p", versions(`,"x-kubernetes-permission-exclusive":null,"x-kubernetes-permission-verb":"example.com/fire"`))
			shown(t, `{"verb":"example.com/fire"}`)
			quiet(t, "", "patch", "crd", name, "--type="+kind, "-p", versions(`,"x-kubernetes-permission-exclusive":true,"x-kubernetes-permission-verb":"example.com/fire"`))
			warned(t, "", "patch", "crd", name, "--type="+kind, "-p", versions(``))
			shown(t, declared)
		}
		quiet(t, "", "label", "crd", name, "a=b")
		quiet(t, "", "annotate", "crd", name, "a=b")
		quiet(t, "", "patch", "crd", name, "--subresource=status", "--type=merge", "-p", `{"status":{"storedVersions":["v1"]}}`)
		warned(t, "", "patch", "crd", name, "--type=merge", "-p", `{"metadata":{"annotations":null}}`)
		refused(t, "the server keeps this annotation", "", "annotate", "crd", name, crdschema.Annotation+"={}")
		refused(t, "the server keeps this annotation", "", "patch", "crd", name, "--type=json", "-p", `[{"op":"add","path":"/metadata/annotations","value":{"`+crdschema.Annotation+`":"{}"}}]`)
		shown(t, declared)
	})
	t.Run("server-side apply by two", func(t *testing.T) {
		remove(t)
		quiet(t, full, "apply", "--server-side", "--field-manager=author", "-f", "-")
		quiet(t, full, "apply", "--server-side", "--field-manager=other", "-f", "-")
		changed := rocketFile("verb: example.com/fire", "exclusive: false")
		refused(t, crdschema.Annotation, changed, "apply", "--server-side", "--field-manager=other", "-f", "-")
		shown(t, declared)
		quiet(t, changed, "apply", "--server-side", "--field-manager=other", "--force-conflicts", "-f", "-")
		shown(t, `{"exclusive":false,"verb":"example.com/fire"}`)
	})
	t.Run("what is declared is enforced", func(t *testing.T) {
		remove(t)
		s.does(t, full, "create", "-f", "-")
		s.await("the definition to be established", func() (bool, error) {
			// kubectl wait fails at once while the status has no conditions.
			_, ok := s.kubectl("", "wait", "--for=condition=Established", "crd/"+name, "--timeout=1s")
			return ok, nil
		})
		s.does(t, "", "create", "clusterrole", "rocketeer", "--verb=get,create,update,patch", "--resource=rockets.example.com")
		s.does(t, "", "create", "clusterrolebinding", "rocketeer", "--clusterrole=rocketeer", "--user=edgar")
		s.await("a rocket by one who may write rockets", func() (bool, error) {
			_, ok := s.kubectl("apiVersion: example.com/v1\nkind: Rocket\nmetadata: {name: r, namespace: default}\nspec: {level: low}\n", "create", "--as=edgar", "-f", "-")
			return ok, nil
		})
		const set = `{"spec":{"fire":true}}`
		s.await("the declaration to take effect", func() (bool, error) {
			out, ok := s.kubectl("", "patch", "rocket", "r", "--as=edgar", "--type=merge", "--dry-run=server", "-p", set)
			return !ok && strings.Contains(out, "field .spec.fire needs granular:example.com/fire"), nil
		})
		s.does(t, "", "patch", "rocket", "r", "--as=edgar", "--type=merge", "-p", `{"spec":{"level":"high"}}`)
		s.does(t, rocketFile("verb: null"), "apply", "--server-side", "--force-conflicts", "-f", "-")
		s.await("the declaration to be gone", func() (bool, error) {
			_, ok := s.kubectl("", "patch", "rocket", "r", "--as=edgar", "--type=merge", "-p", set)
			return ok, nil
		})
	})
	t.Run("typed clients", func(t *testing.T) { typedClients(t, s, name, full) })
}

// deleteDefinition deletes until the definition is gone. Upstream's finalizer can lose its second attempt: the first
// fails while the storage of a new kind initializes and notes that in the status, the second conflicts with that note,
// and such a change of the status is not looked at again. Any other change is.
func deleteDefinition(t *testing.T, s *instance, name string) {
	t.Helper()
	for nudge := 1; nudge < 12; nudge++ {
		if _, ok := s.kubectl("", "delete", "crd", name, "--ignore-not-found", "--timeout=10s"); ok {
			return
		}
		_, _ = s.kubectl("", "annotate", "crd", name, "--overwrite", fmt.Sprintf("test/nudge=%d", nudge))
	}
	t.Fatal("the definition cannot be deleted")
}

// typedClients writes with clients whose types do not have the keys, and watches what others see of it.
func typedClients(t *testing.T, s *instance, name, full string) {
	ctx := t.Context()
	deleteDefinition(t, s, name)
	if out, ok := s.kubectl(full, "create", "-f", "-"); !ok {
		t.Fatal(out)
	}
	protobuf := rest.CopyConfig(s.admin)
	protobuf.ContentType, protobuf.AcceptContentTypes = runtime.ContentTypeProtobuf, runtime.ContentTypeProtobuf
	text := rest.CopyConfig(s.admin)
	text.ContentType, text.AcceptContentTypes = runtime.ContentTypeJSON, runtime.ContentTypeJSON
	for form, config := range map[string]*rest.Config{"json": text, "protobuf": protobuf} {
		var seen collectedWarnings
		config.WarningHandlerWithContext = &seen
		client, err := apiextensionsclient.NewForConfig(config)
		if err != nil {
			t.Fatal(err)
		}
		crds := client.ApiextensionsV1().CustomResourceDefinitions()
		update := func(write func(context.Context, *apiextensionsv1.CustomResourceDefinition, metav1.UpdateOptions) (*apiextensionsv1.CustomResourceDefinition, error),
			change func(*apiextensionsv1.CustomResourceDefinition), warns bool) {
			t.Helper()
			seen = nil
			s.await("the update", func() (bool, error) {
				crd, err := crds.Get(ctx, name, metav1.GetOptions{})
				if err != nil {
					return false, err
				}
				change(crd)
				_, err = write(ctx, crd, metav1.UpdateOptions{})
				return err == nil, nil
			})
			if warns != (len(seen) > 0) {
				t.Errorf("%s: warnings %q", form, seen)
			}
		}
		blind := form == "json" // a client of protobuf sends back the annotation that it sees
		finalizer := func(c *apiextensionsv1.CustomResourceDefinition) {
			c.Finalizers = append(c.Finalizers, "example.com/"+form)
		}
		update(crds.Update, finalizer, blind)
		update(crds.Update, func(c *apiextensionsv1.CustomResourceDefinition) { c.Finalizers, c.Annotations = nil, nil }, true)
		update(crds.UpdateStatus, func(c *apiextensionsv1.CustomResourceDefinition) { c.Status.StoredVersions = []string{"v1"} }, blind)
		if out, _ := s.kubectl("", "get", "crd", name, "-o", "yaml"); !strings.Contains(out, "x-kubernetes-permission-verb: example.com/fire") {
			t.Errorf("%s: %s", form, out)
		}
	}

	// What others see: YAML, lists, tables, metadata, and a watch.
	client, err := rest.HTTPClientFor(s.admin)
	if err != nil {
		t.Fatal(err)
	}
	get := func(query, accept string) *http.Response {
		t.Helper()
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.admin.Host+"/apis/apiextensions.k8s.io/v1/customresourcedefinitions"+query, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Accept", accept)
		resp, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		if resp.StatusCode != http.StatusOK {
			t.Fatalf("%s %s: %s", query, accept, resp.Status)
		}
		return resp
	}
	for _, tc := range []struct {
		query, accept string
		keys          bool
	}{
		{"/" + name, "application/json", true},
		{"/" + name, "application/yaml", true},
		{"", "application/json", true},
		{"?limit=1", "application/yaml", true},
		{"", "application/json;as=Table;g=meta.k8s.io;v=v1", false},
		{"?includeObject=Object", "application/json;as=Table;g=meta.k8s.io;v=v1", true},
		{"/" + name, "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1", false},
		{"", "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1", false},
	} {
		resp := get(tc.query, tc.accept)
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		text := strings.ReplaceAll(string(body), "f:"+crdschema.Annotation, "") // who owns it is no secret
		if err != nil || strings.Contains(text, crdschema.Annotation) || strings.Contains(text, "example.com/fire") != tc.keys {
			t.Errorf("%s %s: %v\n%s", tc.query, tc.accept, err, text)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	// With initial events upstream compresses each event by itself.
	resp := get("?watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true&fieldSelector=metadata.name="+name, "application/json")
	defer resp.Body.Close()
	events := json.NewDecoder(resp.Body)
	next := func(want string) {
		t.Helper()
		var event struct {
			Type   string
			Object map[string]any
		}
		for event.Type = "BOOKMARK"; event.Type == "BOOKMARK"; {
			if err := events.Decode(&event); err != nil {
				t.Fatal(err)
			}
		}
		if got := fire(t, event.Object); got != want {
			t.Errorf("%s shows %s, want %s", event.Type, got, want)
		}
	}
	next(`{"exclusive":true,"verb":"example.com/fire"}`)
	typed, err := apiextensionsclient.NewForConfig(s.admin)
	if err != nil {
		t.Fatal(err)
	}
	patch := []byte(`[{"op":"replace","path":"` + firing + `x-kubernetes-permission-verb","value":"example.com/ignite"}]`)
	if _, err := typed.ApiextensionsV1().CustomResourceDefinitions().Patch(ctx, name, types.JSONPatchType, patch, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	next(`{"exclusive":true,"verb":"example.com/ignite"}`)
}

// collectedWarnings are those that a client was given.
type collectedWarnings []string

func (w *collectedWarnings) HandleWarningHeaderWithContext(_ context.Context, _ int, _, text string) {
	*w = append(*w, text)
}
