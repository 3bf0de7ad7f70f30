package policytest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"

	"proviso.dev/proviso/internal/platform/editdistance"
)

// UnmarshalJSON reads an expectation, or its short form: the decision alone.
func (e *Expectation) UnmarshalJSON(data []byte) error {
	if bytes.HasPrefix(bytes.TrimSpace(data), []byte(`"`)) {
		*e = Expectation{}
		return json.Unmarshal(data, &e.Decision)
	}
	type long Expectation // without this method
	strict := json.NewDecoder(bytes.NewReader(data))
	strict.DisallowUnknownFields()
	return strict.Decode((*long)(e))
}

// decisions are what a case can expect.
var decisions = []string{"Allow", "Deny", "Conditional"}

// wrongDecision says what can be expected, and what may have been meant.
func wrongDecision(got string) error {
	if got == "" {
		return errors.New("expect is missing: use Allow, Deny or Conditional")
	}
	return fmt.Errorf("expect.decision: want Allow, Deny or Conditional, not %q%s", got, meant(got, decisions))
}

// clear says what is wrong with a document, without the words of those who read it.
func clear(err error) error {
	text := err.Error()
	for _, noise := range []string{"error unmarshaling JSON: ", "while decoding JSON: ", "json: ", "error converting YAML to JSON: "} {
		text = strings.ReplaceAll(text, noise, "")
	}
	if _, rest, ok := strings.Cut(text, `unknown field "`); ok {
		name, _, _ := strings.Cut(rest, `"`)
		name = name[strings.LastIndex(name, ".")+1:]
		return fmt.Errorf("there is no field %q%s; docs/reference/policy-tests.md lists the fields", name, meant(name, fieldNames()))
	}
	return errors.New(text)
}

// meant names the word that the author may have meant.
func meant(got string, words []string) string {
	best, at := "", 3
	for _, w := range words {
		if d := editdistance.Distance(strings.ToLower(got), strings.ToLower(w)); d < at {
			best, at = w, d
		}
	}
	if best == "" {
		return ""
	}
	return fmt.Sprintf(" (did you mean %s?)", best)
}

// fieldNames are those of tests, cases and expectations.
func fieldNames() (names []string) {
	for _, t := range []reflect.Type{reflect.TypeFor[Test](), reflect.TypeFor[Case](), reflect.TypeFor[Expectation]()} {
		for i := range t.NumField() {
			if name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ","); name != "" {
				names = append(names, name)
			}
		}
	}
	return names
}
