package lint

import (
	"fmt"
	"strings"
)

// Reachable is a hidden field that users get at who do not see it.
type Reachable struct {
	Object Object // the permission that hides it
	Field  string
	Ways   []Way
}

// Way is how, and who can.
type Way struct {
	How string
	Who []string
}

// reachable remarks on them (HF-7).
func (c *checker) reachable() {
	for _, r := range c.Reachable {
		var ways []string
		for _, w := range r.Ways {
			ways = append(ways, few(w.Who)+" "+w.How)
		}
		c.say(Remark{Code: codeReachable, Severity: Note, Object: r.Object, Path: []any{"spec", "readExclusive"},
			Message: fmt.Sprintf("%s is hidden, and can be got at: %s", r.Field, strings.Join(ways, "; "))})
	}
}

// shown remarks on fields that are hidden nowhere (HF-9).
func (c *checker) shown() {
	for _, o := range c.Shown {
		c.say(Remark{Code: codeShown, Severity: Warning, Object: o, Path: []any{"spec", "readExclusive"},
			Message: "it hides nothing: the API server is a stock one, and shows the field to everybody who may read the object"})
	}
}
