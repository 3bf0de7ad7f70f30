package verbflag

import (
	"fmt"
	"io"
	"strings"

	"proviso.dev/proviso/internal/engine/verbs"
	"proviso.dev/proviso/internal/platform/editdistance"
	"proviso.dev/proviso/internal/platform/terminal"
)

// Warn says of verbs that nothing asks about that they may be misspelled (PO-24).
func Warn(errOut io.Writer, asked ...string) {
	for _, verb := range asked {
		if plain := strings.TrimPrefix(verb, "-"); !verbs.IsKnown(plain) {
			meant := ""
			for _, one := range verbs.All() {
				if meant == "" && editdistance.Distance(strings.ToLower(plain), one) <= 2 {
					meant = fmt.Sprintf(" (did you mean %s?)", one)
				}
			}
			terminal.Fprintf(errOut, "Warning: %q is not a verb of Kubernetes or Proviso%s\n", verb, meant)
		}
	}
}
