package terminal

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"sigs.k8s.io/yaml"
)

// YAML is a document in which everything can be seen, and which says the same when it is read. A plain string of YAML
// cannot spell a character. So a document that has a character to spell is written with every string in quotes.
func YAML(document []byte) (Lines, error) {
	seen := func(r rune) bool { return r == '\n' || !hides(r) }
	if strings.IndexFunc(string(document), func(r rune) bool { return !seen(r) }) < 0 {
		return Lines(document), nil
	}
	text, err := yaml.YAMLToJSON(document)
	if err != nil {
		return "", err
	}
	var indented bytes.Buffer
	if err := json.Indent(&indented, text, "", "  "); err != nil {
		return "", err
	}
	var b strings.Builder
	for _, r := range indented.String() + "\n" {
		switch {
		case seen(r):
			b.WriteRune(r)
		case r > 0xffff:
			fmt.Fprintf(&b, `\U%08x`, r)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return Lines(b.String()), nil
}
