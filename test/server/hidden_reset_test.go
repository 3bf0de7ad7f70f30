package server

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// HF-4: to reset who manages the fields of an object does not make hidden fields nobody's, and the first apply of an
// object that nobody manages does not tell them.
func TestResetOfManagersTellsNothing(t *testing.T) {
	f, _ := hiding(t)
	f.namespace(t, "reset")
	for i, k := range hiddenKinds {
		if k.status != nil {
			continue // an apply of the object does not set its status
		}
		path, name := fmt.Sprintf(k.path, "reset"), fmt.Sprint("x", i)
		f.admin(t, http.MethodPost, path+"?fieldManager=admin", jsonBody, fmt.Sprintf(`{"apiVersion":%q,"kind":%q,"metadata":{"name":%q},%s}`, k.api, k.kind, name, k.body("b25l")))
		const reset = `{"metadata":{"managedFields":[{}]}}`
		allowed(t, "the reset", f.as(t, "blind", http.MethodPatch, path+"/"+name+"?fieldManager=blind", mergePatch, reset))
		if managers := fmt.Sprint(f.admin(t, http.MethodGet, path+"/"+name, jsonBody, "").body); !strings.Contains(managers, "manager:admin") || strings.Contains(managers, "f:type") {
			t.Errorf("%s: what is left of the managers: %s", k.kind, managers)
		}
		apply := func(value string) answer {
			return f.as(t, "blind", http.MethodPatch, path+"/"+name+"?fieldManager=blind", applyPatch, fmt.Sprintf(`{"apiVersion":%q,"kind":%q,"metadata":{"name":%q},%s}`, k.api, k.kind, name, k.body(value)))
		}
		for _, who := range []string{"blind", "admin"} {
			if who == "admin" {
				f.admin(t, http.MethodPatch, path+"/"+name+"?fieldManager=admin", mergePatch, reset)
			}
			same, other := apply("b25l"), apply("dHdv")
			if same.code != http.StatusConflict || same.code != other.code || same.message != other.message {
				t.Errorf("%s, after a reset by %s: %d %s\n%d %s", k.kind, who, same.code, same.message, other.code, other.message)
			}
		}
	}
}
