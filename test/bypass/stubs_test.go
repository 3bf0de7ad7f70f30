package bypass

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// stubs are objects that validate, one for each resource and version.
type stubs map[schema.GroupVersionResource]map[string]any

// upstreamStubs reads the objects with which Kubernetes tests the storage of every resource it has. They come with the
// source, so that a resource of a later version brings its own.
func upstreamStubs(t testing.TB) stubs {
	t.Helper()
	dir, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "k8s.io/kubernetes").Output()
	if err != nil {
		t.Fatalf("the source of Kubernetes: %v", err)
	}
	file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(strings.TrimSpace(string(dir)), "test", "integration", "etcd", "data.go"), nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	out := stubs{}
	ast.Inspect(file, func(n ast.Node) bool {
		entry, ok := n.(*ast.KeyValueExpr)
		if !ok {
			return true
		}
		gvr, ok := stubKey(entry.Key)
		body, isLiteral := entry.Value.(*ast.CompositeLit)
		if !ok || !isLiteral {
			return true
		}
		for _, field := range body.Elts {
			pair, ok := field.(*ast.KeyValueExpr)
			if name, isName := pair.Key.(*ast.Ident); !ok || !isName || name.Name != "Stub" {
				continue
			}
			var object map[string]any
			if err := json.Unmarshal([]byte(text(pair.Value)), &object); err != nil {
				t.Fatalf("the stub of %v: %v", gvr, err)
			}
			out[gvr] = object
		}
		return false
	})
	if len(out) < 50 {
		t.Fatalf("only %d objects were found in the source of Kubernetes: its shape has changed", len(out))
	}
	return out
}

// stubKey reads gvr("apps", "v1", "deployments").
func stubKey(key ast.Expr) (schema.GroupVersionResource, bool) {
	call, ok := key.(*ast.CallExpr)
	if !ok || len(call.Args) != 3 {
		return schema.GroupVersionResource{}, false
	}
	return schema.GroupVersionResource{Group: text(call.Args[0]), Version: text(call.Args[1]), Resource: text(call.Args[2])}, true
}

// text evaluates a concatenation of literals and of the few variables in them.
func text(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.BasicLit:
		s, _ := strconv.Unquote(e.Value)
		return s
	case *ast.BinaryExpr:
		return text(e.X) + text(e.Y)
	case *ast.Ident:
		return map[string]string{"image": "registry.example.com/image", "namespace": "NAMESPACE"}[e.Name]
	}
	return ""
}

// ownStubs are those of our groups, of the custom resource, and of what Kubernetes does not store.
var ownStubs = map[string]string{
	"hunt.example.com/v1/widgets": `{"spec": {"replicas": 1}}`,
	"hunt.example.com/v2/widgets": `{"spec": {"replicas": 1}}`,
	"agg.example.com/v1/things":   `{}`,

	"policy.proviso.dev/v1alpha1/policies":                            `{"metadata": {"name": "default"}}`,
	"policy.proviso.dev/v1alpha1/policybindings":                      `{"metadata": {"name": "NAMESPACE"}, "policyRef": {"namespace": "NAMESPACE"}}`,
	"authorization.proviso.dev/v1alpha1/roles":                        `{"rules": [{"verbs": ["get"], "resourceKinds": ["pods"]}]}`,
	"authorization.proviso.dev/v1alpha1/rolebindings":                 `{"roleRef": {"namespace": "master", "name": "view"}, "userNames": ["nobody"]}`,
	"policy.proviso.dev/v1alpha1/fieldpermissions":                    `{"spec": {"resources": ["pods"], "field": ".spec.hostname", "permission": "example.com/hostname"}}`,
	"policy.proviso.dev/v1alpha1/protectedattributes":                 `{"attributeKind": "Label", "attributeName": "example.com/other", "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "keepers"}}`,
	"policy.proviso.dev/v1alpha1/clusterprotectedattributes":          `{"attributeKind": "Label", "attributeName": "example.com/other", "protectedValues": ["never"], "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "keepers"}}`,
	"auditregistration.k8s.io/v1alpha1/auditsinks":                    `{"spec": {"policy": {"level": "None"}}}`,
	"policy.proviso.dev/v1alpha1/namespaceauditsinks":                 `{"spec": {"serviceAccountName": "default", "policy": {"level": "None"}}}`,
	"access.proviso.dev/v1alpha1/accessrules":                         `{"spec": {"subjects": {"userNames": ["nobody"]}, "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"}, "namespaces": ["*"], "maxDurationSeconds": 60, "approvals": {"count": 1, "subjects": {"userNames": ["nobody"]}}}}`,
	"auditregistration.k8s.io/v1alpha1/auditclasses":                  `{"spec": {"rules": [{"verbs": ["get"]}]}}`,
	"authorization.proviso.dev/v1alpha1/resourceaccessreviews":        `{"spec": {"verb": "get", "resourceKind": "pods"}}`,
	"authorization.proviso.dev/v1alpha1/clusterresourceaccessreviews": `{"spec": {"verb": "get", "resourceKind": "pods"}}`,
	"authorization.proviso.dev/v1alpha1/subjectaccessreviews":         `{"spec": {"verb": "get", "resourceKind": "pods", "userName": "nobody"}}`,
	"authorization.proviso.dev/v1alpha1/clustersubjectaccessreviews":  `{"spec": {"verb": "get", "resourceKind": "pods", "userName": "nobody"}}`,

	// upstream's ask for rights of their author to what they refer to
	"admissionregistration.k8s.io/v1/validatingadmissionpolicies":       `{"spec": {"matchConstraints": {"resourceRules": [{"apiGroups": ["none"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["none"]}]}, "validations": [{"expression": "true"}]}}`,
	"admissionregistration.k8s.io/v1/validatingadmissionpolicybindings": `{"spec": {"policyName": "none", "validationActions": ["Deny"]}}`,
	"admissionregistration.k8s.io/v1/mutatingadmissionpolicies":         `{"spec": {"reinvocationPolicy": "Never", "failurePolicy": "Fail", "matchConstraints": {"resourceRules": [{"apiGroups": ["none"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["none"]}]}, "mutations": [{"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": "Object{}"}}]}}`,
	"admissionregistration.k8s.io/v1/mutatingadmissionpolicybindings":   `{"spec": {"policyName": "none"}}`,

	"scheduling.k8s.io/v1/priorityclasses": `{"value": 1000}`,
	"discovery.k8s.io/v1/endpointslices":   `{"addressType": "IPv4", "ports": [], "endpoints": []}`,

	"/v1/resourcequotas": `{"spec": {"hard": {"count/nothing.example.com": "5"}}}`, // upstream's would keep pods out
	"/v1/bindings":       `{"target": {"kind": "Node", "name": "nowhere"}}`,
	"rbac.authorization.k8s.io/v1/rolebindings":        `{"roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"}, "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "nobody"}]}`,
	"rbac.authorization.k8s.io/v1/clusterrolebindings": `{"roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"}, "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "nobody"}]}`,
	"apiregistration.k8s.io/v1/apiservices":            `{"spec": {"group": "GROUP", "version": "v1", "groupPriorityMinimum": 10, "versionPriority": 10}}`,
	"apiextensions.k8s.io/v1/customresourcedefinitions": `{"spec": {"scope": "Cluster", "group": "GROUP", "names": {"kind": "Thing", "plural": "things", "singular": "thing", "listKind": "ThingList"},
		"versions": [{"name": "v1", "storage": true, "served": false, "schema": {"openAPIV3Schema": {"type": "object"}}}]}}`,

	"authentication.k8s.io/v1/tokenreviews":             `{"spec": {"token": "t"}}`,
	"authentication.k8s.io/v1/selfsubjectreviews":       `{}`,
	"authentication.k8s.io/v1beta1/selfsubjectreviews":  `{}`,
	"authentication.k8s.io/v1alpha1/selfsubjectreviews": `{}`,
	"authorization.k8s.io/v1/subjectaccessreviews":      `{"spec": {"user": "nobody", "resourceAttributes": {"verb": "get", "resource": "pods"}}}`,
	"authorization.k8s.io/v1/selfsubjectaccessreviews":  `{"spec": {"resourceAttributes": {"verb": "get", "resource": "pods"}}}`,
	"authorization.k8s.io/v1/selfsubjectrulesreviews":   `{"spec": {"namespace": "NAMESPACE"}}`,
	"authorization.k8s.io/v1/localsubjectaccessreviews": `{"metadata": {"namespace": "NAMESPACE"}, "spec": {"user": "nobody", "resourceAttributes": {"namespace": "NAMESPACE", "verb": "get", "resource": "pods"}}}`,
	"authorization.k8s.io/v1alpha1/authorizationconditionsreviews": `{"request": {"operation": "CREATE", "object": {}, "conditionSet": {"authorizerName": "policy-master", "failureMode": "Deny", "conditions": [
		{"id": "policy.proviso.dev/x", "effect": "Allow", "type": "k8s.io/authorization-cel", "condition": "has(object.metadata)"}]}}}`,
}

// otherBodies are what subresources take that have another kind than their resource.
var otherBodies = map[string]string{
	"Binding":      `{"target": {"kind": "Node", "name": "nowhere"}}`,
	"Eviction":     `{}`,
	"TokenRequest": `{"spec": {"audiences": ["hunt"], "expirationSeconds": 600}}`,
	"Scale":        `{"spec": {"replicas": 2}}`,
}

// allStubs puts ours over upstream's.
func allStubs(t testing.TB) stubs {
	t.Helper()
	out := upstreamStubs(t)
	for key, body := range ownStubs {
		part := strings.Split(key, "/")
		var object map[string]any
		if err := json.Unmarshal([]byte(body), &object); err != nil {
			t.Fatalf("%s: %v", key, err)
		}
		for gvr := range out {
			if gvr.Group == part[0] && gvr.Resource == part[2] {
				delete(out, gvr)
			}
		}
		defer func() { out[schema.GroupVersionResource{Group: part[0], Version: part[1], Resource: part[2]}] = object }()
	}
	return out
}

// object is the n-th object of a resource, in the version of the endpoint; n keeps the names apart.
func (s stubs) object(e endpoint, namespace string, n int) (map[string]any, bool) {
	stub, known := s[e.GroupVersionResource]
	if !known {
		for gvr, other := range s { // another version will mostly do
			if gvr.GroupResource() == e.GroupResource() {
				stub, known = other, true
			}
		}
	}
	group := fmt.Sprintf("hunt%d.example.org", n)
	raw, _ := json.Marshal(stub)
	var out map[string]any
	_ = json.Unmarshal([]byte(strings.NewReplacer("NAMESPACE", namespace, "GROUP", group).Replace(string(raw))), &out)
	if out == nil {
		out = map[string]any{}
	}
	out["apiVersion"], out["kind"] = e.own.GroupVersion().String(), e.own.Kind
	if strings.HasSuffix(e.own.Kind, "Review") {
		return out, known // its metadata must be empty
	}
	meta := child(out, "metadata")
	meta["name"] = objectName(e, meta["name"], group, n)
	if e.namespaced {
		meta["namespace"] = namespace
	}
	return out, known
}

// objectName follows the rules that some kinds have for names.
func objectName(e endpoint, stub any, group string, n int) string {
	base, _ := stub.(string)
	switch e.Resource {
	case "policies", "policybindings":
		return base
	case "apiservices":
		return "v1." + group
	case "customresourcedefinitions":
		return "things." + group
	case "ipaddresses":
		return fmt.Sprintf("192.168.%d.%d", n/250, n%250+1)
	case "clustertrustbundles":
		return fmt.Sprintf("example.com:signer:hunt-%d", n)
	case "storageversions":
		return fmt.Sprintf("hunt.number%d", n)
	}
	return fmt.Sprintf("hunt-%d", n)
}

// child is a map inside a map, made if it is missing.
func child(in map[string]any, path ...string) map[string]any {
	for _, name := range path {
		next, ok := in[name].(map[string]any)
		if !ok {
			next = map[string]any{}
			in[name] = next
		}
		in = next
	}
	return in
}
