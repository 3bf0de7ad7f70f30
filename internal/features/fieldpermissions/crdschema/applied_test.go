package crdschema

import (
	"encoding/json"
	"strings"
	"testing"
)

// FP-3: what kubectl remembers is kept in the form of the server and shown in that of its author, with nulls, and
// nothing else changes.
func TestLastApplied(t *testing.T) {
	remembered := func(file string) map[string]any {
		file = strings.Replace(file, "metadata: {", "metadata: {annotations: {}, ", 1) // as kubectl writes it
		root := at(tree(t, definition(plain)))
		at(root, "metadata")["annotations"] = map[string]any{lastApplied: asJSON(t, tree(t, file)) + "\n", "a": "b"}
		return root
	}
	for _, file := range []string{definition(guarded), definition(`fire: {type: boolean, x-kubernetes-permission-verb: null}`)} {
		body := asJSON(t, remembered(file))
		_, sent := call{verb: "patch", contentType: mergePatch, body: body}.do(t)
		if sent == nil || sent.carried.Annotation != "" {
			t.Fatalf("%+v", sent)
		}
		var root map[string]any
		if err := json.Unmarshal([]byte(sent.body), &root); err != nil {
			t.Fatal(err)
		}
		kept := text(at(root, "metadata", "annotations")[lastApplied])
		if !strings.Contains(kept, `"`+Annotation+`":`) || strings.Contains(kept, `"boolean","x-`) {
			t.Errorf("kept: %s", kept)
		}
		showOne(root)
		if got := asJSON(t, root); got != body {
			t.Errorf("shown:\n%s\nwritten:\n%s", got, body)
		}
	}
	for _, left := range []string{asJSON(t, tree(t, definition(plain))), "no JSON " + KeyVerb, `[1,"` + KeyVerb + `"]`, strings.Repeat("[", 2000) + KeyPrefix} {
		root := remembered(definition(plain))
		at(root, "metadata", "annotations")[lastApplied] = left
		if liftApplied(root) || text(at(root, "metadata", "annotations")[lastApplied]) != left {
			t.Errorf("%.60s was changed", left)
		}
	}
	nested := remembered(definition(guarded))
	text, _ := json.Marshal(nested)
	at(nested, "metadata", "annotations")[lastApplied] = string(text)
	liftApplied(nested)
	showOne(nested)
}
