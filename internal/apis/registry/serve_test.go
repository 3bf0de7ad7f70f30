package registry

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
)

// The groups are discovered with their verbs, short names and categories.
// PO-3, PO-4, FP-4, FP-12, PA-1, DA-1
func TestDiscovery(t *testing.T) {
	s := serve(t, &world{})
	for _, tc := range []struct {
		group, resource, kind, verbs string
		namespaced                   bool
	}{
		{policyAPI, "policies", "Policy", "create delete deletecollection get list patch update watch", true},
		{policyAPI, "policies/status", "Policy", "get patch update", true},
		{policyAPI, "policybindings", "PolicyBinding", "create delete deletecollection get list patch update watch", true},
		{policyAPI, "fieldpermissions", "FieldPermission", "create delete deletecollection get list patch update watch", false},
		{policyAPI, "protectedattributes", "ProtectedAttribute", "create delete deletecollection get list patch update watch", true},
		{policyAPI, "clusterprotectedattributes", "ClusterProtectedAttribute", "create delete deletecollection get list patch update watch", false},
		{authzAPI, "roles", "Role", "create delete get list patch update watch", true},
		{authzAPI, "rolebindings", "RoleBinding", "create delete get list patch update watch", true},
		{authzAPI, "resourceaccessreviews", "ResourceAccessReview", "create", true},
		{authzAPI, "subjectaccessreviews", "SubjectAccessReview", "create", true},
		{authzAPI, "permissions", "Permission", "get list", false},
		{auditAPI, "auditsinks", "AuditSink", "create delete deletecollection get list patch update watch", false},
		{auditAPI, "auditsinks/status", "AuditSink", "get patch update", false},
		{auditAPI, "auditclasses", "AuditClass", "create delete deletecollection get list patch update watch", false},
	} {
		t.Run(tc.resource, func(t *testing.T) {
			var list struct {
				Resources []struct {
					Name, Kind, SingularName string
					Namespaced               bool
					Verbs, Categories        []string
				}
			}
			if err := json.Unmarshal(s.must("GET", tc.group, nil).raw, &list); err != nil {
				t.Fatal(err)
			}
			for _, r := range list.Resources {
				if r.Name != tc.resource {
					continue
				}
				slices.Sort(r.Verbs)
				if got := strings.Join(r.Verbs, " "); got != tc.verbs {
					t.Errorf("verbs %q, want %q", got, tc.verbs)
				}
				if r.Kind != tc.kind || r.Namespaced != tc.namespaced {
					t.Errorf("kind %s namespaced %v, want %s %v", r.Kind, r.Namespaced, tc.kind, tc.namespaced)
				}
				// What nobody has written would only be in the way of `kubectl get proviso`.
				written := !strings.Contains(tc.resource, "/") && !strings.HasSuffix(tc.resource, "reviews") && tc.resource != "permissions"
				if written != slices.Contains(r.Categories, "proviso") {
					t.Errorf("categories %v", r.Categories)
				}
				return
			}
			t.Errorf("not discovered in %v", list.Resources)
		})
	}
}

// OpenAPI v3 describes every field, with one group-version-kind per definition, so that explain works.
func TestOpenAPI(t *testing.T) {
	s := serve(t, &world{})
	var doc struct {
		Paths      map[string]map[string]any
		Components struct {
			Schemas map[string]struct {
				Description string
				GVK         []map[string]string `json:"x-kubernetes-group-version-kind"`
				Properties  map[string]struct{ Description string }
			}
		}
	}
	if err := json.Unmarshal(s.must("GET", "/openapi/v3"+authzAPI, nil).raw, &doc); err != nil {
		t.Fatal(err)
	}
	role := doc.Components.Schemas["dev.proviso.authorization.v1alpha1.Role"]
	if len(role.GVK) != 1 || role.GVK[0]["version"] != "v1alpha1" {
		t.Errorf("Role has the group-version-kinds %v, want exactly the served one", role.GVK)
	}
	for name, schema := range doc.Components.Schemas {
		if !strings.HasPrefix(name, "dev.proviso.") {
			continue
		}
		if schema.Description == "" {
			t.Errorf("%s has no description", name)
		}
		for field, p := range schema.Properties {
			if p.Description == "" {
				t.Errorf("%s.%s has no description", name, field)
			}
		}
	}
	if doc.Paths[authzAPI+"/resourceaccessreviews"]["post"] == nil || doc.Paths[authzAPI+"/namespaces/{namespace}/resourceaccessreviews"]["post"] == nil {
		t.Error("reviews are not described both with and without a namespace")
	}
}

// Clients that prefer protobuf, as Kubernetes' own controllers do, get metadata in it and objects in JSON instead of an
// error.
func TestProtobufClientsAreServed(t *testing.T) {
	s := serve(t, &world{})
	s.containers("hammer")
	got := s.call("GET", policyAPI+"/policies", nil, "Accept",
		"application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json")
	if got.code != 200 || !strings.HasPrefix(string(got.raw), "k8s\x00") || !strings.Contains(string(got.raw), "PartialObjectMetadataList") {
		t.Errorf("code %d, body %q", got.code, got.raw)
	}
	got = s.call("GET", policyAPI+"/namespaces/hammer/policies/default", nil, "Accept", "application/vnd.kubernetes.protobuf,application/json")
	if got.code != 200 || got.at("kind") != "Policy" {
		t.Errorf("code %d, kind %v", got.code, got.at("kind"))
	}
}
