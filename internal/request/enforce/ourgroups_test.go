package enforce

import (
	"strings"
	"testing"

	discovery "k8s.io/api/discovery/v1"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/kube-aggregator/pkg/apis/apiregistration"
)

// SV-8: nobody but this server serves our groups, whoever asks.
func TestOurGroups(t *testing.T) {
	check := OurGroups{Groups: []string{"ours.dev"}, Serving: servingFunc(func(gv schema.GroupVersion) bool { return gv.Version == "v1alpha1" })}
	crd := func(group, kind string) runtime.Object {
		c := &apiextensions.CustomResourceDefinition{}
		c.Spec.Group, c.Spec.Names.Kind = group, kind
		return c
	}
	service := func(group, version string, elsewhere bool) runtime.Object {
		s := &apiregistration.APIService{Spec: apiregistration.APIServiceSpec{Group: group, Version: version}}
		if elsewhere {
			s.Spec.Service = &apiregistration.ServiceReference{Name: "x"}
		}
		return s
	}
	crds, services := apiextensions.Resource("customresourcedefinitions"), apiregistration.Resource("apiservices")
	for _, test := range []struct {
		name     string
		resource schema.GroupResource
		op       admission.Operation
		next     runtime.Object
		old      runtime.Object
		sub      string
		want     string
	}{
		{name: "a definition in our group", resource: crds, op: admission.Create, next: crd("ours.dev", "Policy"), want: "belongs to this server"},
		{name: "in another", resource: crds, op: admission.Create, next: crd("example.com", "Policy")},
		{name: "in one below ours", resource: crds, op: admission.Create, next: crd("x.ours.dev", "Policy")},
		{name: "a change of a stored one", resource: crds, op: admission.Update, next: crd("ours.dev", "B"), old: crd("ours.dev", "A"), want: "belongs to this server"},
		{name: "its metadata", resource: crds, op: admission.Update, next: crd("ours.dev", "A"), old: crd("ours.dev", "A")},
		{name: "its status", resource: crds, op: admission.Update, next: crd("ours.dev", "B"), old: crd("ours.dev", "A"), sub: "status"},
		{name: "its end", resource: crds, op: admission.Delete, old: crd("ours.dev", "A")},
		{name: "something else as a definition", resource: crds, op: admission.Create, next: service("example.com", "v1", false), want: "cannot tell"},
		{name: "another server for our group", resource: services, op: admission.Create, next: service("ours.dev", "v1alpha1", true), want: "belongs to this server"},
		{name: "another version", resource: services, op: admission.Create, next: service("ours.dev", "v9", false), want: "belongs to this server"},
		{name: "what we register", resource: services, op: admission.Create, next: service("ours.dev", "v1alpha1", false)},
		{name: "another server for another group", resource: services, op: admission.Create, next: service("example.com", "v1", true)},
		{name: "sending ours elsewhere", resource: services, op: admission.Update, next: service("ours.dev", "v1alpha1", true), old: service("ours.dev", "v1alpha1", false), want: "belongs to this server"},
		{name: "bringing it back", resource: services, op: admission.Update, next: service("ours.dev", "v1alpha1", false), old: service("ours.dev", "v1alpha1", true)},
		{name: "taking ours out of discovery", resource: services, op: admission.Delete, old: service("ours.dev", "v1alpha1", false), want: "leave its policy behind"},
		{name: "taking out what is not ours", resource: services, op: admission.Delete, old: service("ours.dev", "v9", false)},
		{name: "taking out another", resource: services, op: admission.Delete, old: service("example.com", "v1", true)},
	} {
		t.Run(test.name, func(t *testing.T) {
			master := &user.DefaultInfo{Name: "root", Groups: []string{user.SystemPrivilegedGroup}}
			attrs := admission.NewAttributesRecord(test.next, test.old, schema.GroupVersionKind{}, "", "x", test.resource.WithVersion("v1"), test.sub, test.op, nil, false, master)
			err := check.Validate(t.Context(), attrs, nil)
			if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}

// SC-2, SC-9: beside a stock server nobody who is asked about changes the way to our groups.
func TestTheWayToOurGroups(t *testing.T) {
	check := OurGroups{Groups: []string{"ours.dev"}, Serving: servingFunc(func(schema.GroupVersion) bool { return true }), Service: &apiregistration.ServiceReference{Namespace: "home", Name: "proviso"}}
	service := func(insecure bool, priority int32) runtime.Object {
		return &apiregistration.APIService{ObjectMeta: metav1.ObjectMeta{Name: "v1.ours.dev"}, Spec: apiregistration.APIServiceSpec{Group: "ours.dev", Version: "v1",
			Service: &apiregistration.ServiceReference{Namespace: "home", Name: "proviso"}, InsecureSkipTLSVerify: insecure, VersionPriority: priority}}
	}
	object := func(name string, labels map[string]string) runtime.Object {
		return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}
	}
	of := map[string]string{discovery.LabelServiceName: "proviso"}
	services, slicesOf := schema.GroupResource{Resource: "services"}, schema.GroupResource{Group: "discovery.k8s.io", Resource: "endpointslices"}
	for _, test := range []struct {
		name            string
		resource        schema.GroupResource
		namespace, item string
		op              admission.Operation
		next, old       runtime.Object
		refused         bool
	}{
		{"no certificate is asked for", apiregistration.Resource("apiservices"), "", "v1.ours.dev", admission.Update, service(true, 1), service(false, 1), true},
		{"its metadata", apiregistration.Resource("apiservices"), "", "v1.ours.dev", admission.Update, service(false, 1), service(false, 1), false},
		{"one is made", apiregistration.Resource("apiservices"), "", "v1.ours.dev", admission.Create, service(false, 1), nil, true},
		{"the service leads elsewhere", services, "home", "proviso", admission.Update, object("proviso", nil), object("proviso", nil), true},
		{"it is deleted", services, "home", "proviso", admission.Delete, nil, object("proviso", nil), true},
		{"with all others", services, "home", "", admission.Delete, nil, object("proviso", nil), true},
		{"another service", services, "home", "", admission.Delete, nil, object("other", nil), false},
		{"a service elsewhere", services, "team", "proviso", admission.Update, object("proviso", nil), object("proviso", nil), false},
		{"another address", slicesOf, "home", "x", admission.Create, object("x", of), nil, true},
		{"no address", slicesOf, "home", "x", admission.Update, object("x", nil), object("x", of), true},
		{"addresses of another", slicesOf, "home", "x", admission.Create, object("x", nil), nil, false},
		{"endpoints", schema.GroupResource{Resource: "endpoints"}, "home", "proviso", admission.Create, object("proviso", nil), nil, true},
		{"the namespace is deleted", schema.GroupResource{Resource: "namespaces"}, "home", "home", admission.Delete, nil, object("home", nil), true},
		{"the namespace is labelled", schema.GroupResource{Resource: "namespaces"}, "home", "home", admission.Update, object("home", nil), object("home", nil), false},
		{"another namespace is deleted", schema.GroupResource{Resource: "namespaces"}, "team", "team", admission.Delete, nil, object("team", nil), false},
		{"a config map", schema.GroupResource{Resource: "configmaps"}, "home", "proviso", admission.Create, object("proviso", nil), nil, false},
	} {
		attrs := admission.NewAttributesRecord(test.next, test.old, schema.GroupVersionKind{}, test.namespace, test.item, test.resource.WithVersion("v1"), "", test.op, nil, false, &user.DefaultInfo{Name: "ada"})
		if err := check.Validate(t.Context(), attrs, nil); (err != nil) != test.refused {
			t.Errorf("%s: %v", test.name, err)
		}
		alone := OurGroups{Groups: check.Groups, Serving: check.Serving}
		if err := alone.Validate(t.Context(), attrs, nil); err != nil && test.resource.Resource != "apiservices" {
			t.Errorf("%s, in a server of ours: %v", test.name, err)
		}
	}
}

type servingFunc func(schema.GroupVersion) bool

func (f servingFunc) Serves(gv schema.GroupVersion) bool { return f(gv) }
