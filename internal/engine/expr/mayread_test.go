package expr

import "testing"

// HF-5: an expression that may read a field is found, whatever form it has.
func TestMayRead(t *testing.T) {
	for source, want := range map[string]bool{
		`object.metadata.name == "x"`:                              false,
		`object.data.password == "x"`:                              true,
		`object.data == oldObject.data`:                            true,
		`"data" in object`:                                         true,
		`has(oldObject.data)`:                                      true,
		`object["data"]["x"] == "y"`:                               true,
		`object[request.name] == "y"`:                              true,
		`object == oldObject`:                                      true,
		`object.?data.orValue({}).size() > 1`:                      true,
		`resource.type == "Opaque"`:                                false,
		`[object, oldObject].exists(o, o.data.x == "y")`:           true,
		`object.metadata.labels.exists(k, k == "data")`:            false,
		`object.metadata.labels[object.data.x] == "y"`:             true,
		`request.userInfo.username == "x" && has(object.metadata)`: false,
		`{"a": object.data}.a == "x"`:                              true,
		`not an expression`:                                        true,
		`object.metadata.name.startsWith(oldObject.data.x)`:        true,
	} {
		if got := MayRead(source, []string{"data"}); got != want {
			t.Errorf("%s: %v", source, got)
		}
	}
	if !MayRead(`object.spec.containers.all(c, c.image == "x")`, []string{"spec", "containers", "", "env", "", "value"}) ||
		MayRead(`object.spec.nodeName == "x"`, []string{"spec", "containers", "", "env", "", "value"}) {
		t.Error("lists")
	}
}

// HF-5: so is one that may read a field of the namespace.
func TestMayReadNamespace(t *testing.T) {
	for source, want := range map[string]bool{
		`namespaceObject.metadata.annotations["a"] == "x"`:          true,
		`namespaceObject.metadata.annotations[request.name] == "x"`: true,
		`namespaceObject == namespaceObject`:                        true,
		`namespaceObject.metadata.annotations.all(k, k == "x")`:     true,
		`namespaceObject.metadata.annotations["b"] == "x"`:          false,
		`namespaceObject.metadata.labels["a"] == "x"`:               false,
		`object.metadata.annotations["a"] == "x"`:                   false,
	} {
		if got := MayReadNamespace(source, []string{"metadata", "annotations", "a"}); got != want {
			t.Errorf("%s: %v", source, got)
		}
	}
	if MayRead(`namespaceObject.data == "x"`, []string{"data"}) {
		t.Error("the namespace is not the object")
	}
}
