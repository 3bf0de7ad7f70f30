package controllers

import (
	"fmt"
	"slices"
	"strings"
)

// Known returns the names that --controllers takes, in the order in which the controllers are started.
func Known() []string {
	var out []string
	for _, c := range all {
		out = append(out, c.name)
	}
	return out
}

// choice is a list in the language of --controllers: "*" stands for all, "foo" switches foo on, "-foo" off. The first
// entry for a controller counts, and takes precedence over "*".
type choice struct {
	star     bool
	explicit map[string]bool
}

func parseChoice(list []string) (choice, error) {
	c := choice{explicit: map[string]bool{}}
	for _, entry := range list {
		if entry == "*" {
			c.star = true
			continue
		}
		name, off := strings.CutPrefix(entry, "-")
		known, ok := canonical(name)
		if !ok {
			return c, fmt.Errorf("controller %q is not known; known are *, %s", entry, strings.Join(Known(), ", "))
		}
		if _, said := c.explicit[known]; !said {
			c.explicit[known] = !off
		}
	}
	return c, nil
}

// canonical resolves the short names that upstream still accepts.
func canonical(name string) (string, bool) {
	i := slices.IndexFunc(all, func(c controller) bool { return name == c.name || name == c.alias })
	if i < 0 {
		return "", false
	}
	return all[i].name, true
}

func (c choice) enabled(name string) bool {
	if on, said := c.explicit[name]; said {
		return on
	}
	return c.star
}
