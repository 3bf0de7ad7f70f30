package cli

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// recordedBy is the end of a request that a grant made possible; none if the name is empty.
func recordedBy(grant, verb, resource, name string) string {
	annotations := "{}"
	if grant != "" {
		annotations = fmt.Sprintf(`{"access.proviso.dev/request":%q}`, grant)
	}
	return fmt.Sprintf(`{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":"Metadata","auditID":"%[1]s-%[2]s-%[3]s","stage":"ResponseComplete","verb":%[1]q,"requestURI":"/","user":{"username":"ann"},`+
		`"objectRef":{"resource":%[2]q,"namespace":"prod","name":%[3]q,"apiVersion":"v1"},"responseStatus":{"code":201},"requestReceivedTimestamp":"2026-11-18T03:54:12Z","annotations":%[4]s}`, verb, resource, name, annotations)
}

func compressed(t *testing.T, text string) string {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := w.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// TM-14: a report reads every form of a log, counts the lines that it could not read, and fails if it could read none.
func TestAccessReport(t *testing.T) {
	made := recordedBy("prod/x", "create", "pods", "debug")
	other := recordedBy("prod/y", "get", "secrets", "database")
	list := `{"kind":"EventList","apiVersion":"audit.k8s.io/v1","items":[` + other + "," + made + "]}"
	const (
		done     = "1 requests were made possible by prod/x.\n"
		deed     = "2026-11-18T03:54:12Z   201    create pods debug -n prod\n"
		lasts    = "  create pods debug -n prod: a workload runs as a service account\n"
		nothing  = "Nothing in the log was made possible by prod/x.\n"
		oneLine  = "\n1 line could not be read, so the report may be incomplete:\n  line 2: not valid JSON\n"
		noneRead = "no requests found in "
	)
	for name, tc := range map[string]struct {
		log    string
		want   []string
		code   int
		absent string
	}{
		"lines":               {log: other + "\n" + made + "\n", want: []string{done, deed, lasts}, absent: "could not be read"},
		"compressed":          {log: compressed(t, other+"\n"+made+"\n"), want: []string{done, deed, lasts}},
		"a list":              {log: list, want: []string{done, deed, lasts}},
		"a compressed list":   {log: compressed(t, list+"\n"), want: []string{done, deed, lasts}},
		"a damaged line":      {log: made + "\n{\"kind\":\"Ev\n", want: []string{done, lasts, oneLine}},
		"damage, and nothing": {log: other + "\n{\"kind\":\"Ev\n", want: []string{nothing, oneLine}},
		"damage, nothing lasts": {log: recordedBy("prod/x", "list", "configmaps", "") + "\n{\"kind\":\"Ev\n",
			want: []string{done, "Nothing of it outlives the grant by itself.\n", oneLine}},
		"no event":           {log: "{}\nhello\n", want: []string{noneRead, "2 lines, of which 1 are broken, 1 are not audit events"}, code: codeUnanswered, absent: nothing},
		"nothing":            {log: "", want: []string{noneRead}, code: codeUnanswered, absent: nothing},
		"a damaged archive":  {log: compressed(t, other+"\n"+made+"\n")[:100], want: []string{"unexpected EOF"}, code: codeUnanswered, absent: nothing},
		"it was another one": {log: other, want: []string{nothing}},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "audit.log")
			if err := os.WriteFile(file, []byte(tc.log), 0o600); err != nil {
				t.Fatal(err)
			}
			out, err := answer(t, map[string]any{}).run(t, "access", "report", "x", "-n", "prod", "--replay", file)
			if err != nil {
				out += err.Error()
			}
			if code(err) != tc.code {
				t.Errorf("exit code %d, want %d", code(err), tc.code)
			}
			for _, want := range tc.want {
				if !strings.Contains(out, want) {
					t.Errorf("want %q in\n%s", want, out)
				}
			}
			if tc.absent != "" && strings.Contains(out, tc.absent) {
				t.Errorf("%q is in\n%s", tc.absent, out)
			}
		})
	}
	file := filepath.Join(t.TempDir(), "audit.log")
	if err := os.WriteFile(file, []byte(made+"\nhello\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := answer(t, map[string]any{}).run(t, "access", "report", "x", "-n", "prod", "-o", "json", "--replay", file); err != nil || !strings.Contains(out, `"unreadable": 1`) {
		t.Errorf("as JSON: %v\n%s", err, out)
	}
}
