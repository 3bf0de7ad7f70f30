package expr

import (
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

var sharedCompiler = sync.OnceValues(func() (*Compiler, error) { return New(Config{}) })

func compiler(t testing.TB) *Compiler {
	t.Helper()
	c, err := sharedCompiler()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func compile(t testing.TB, kind Kind, source string) *Program {
	t.Helper()
	p, issues := compiler(t).Compile(source, Options{Kind: kind})
	if issues != nil {
		t.Fatalf("%s: %v", source, issues)
	}
	return p
}

// edgar is the request of most table tests.
func edgar() *Request {
	return &Request{
		User: "edgar", Groups: []string{"dev", "system:authenticated"},
		Extra: map[string][]string{"team": {"blue"}},
		Verb:  "create", APIVersion: "v1", Resource: "pods", Namespace: "hammer",
	}
}

func obj(fields map[string]any) runtime.Object {
	if fields == nil {
		return nil
	}
	return &unstructured.Unstructured{Object: fields}
}

func data(op string, object, oldObject map[string]any) *Data {
	return NewData(DataConfig{Operation: op, OwnKind: true, Objects: Static{New: obj(object), Old: obj(oldObject)}})
}
