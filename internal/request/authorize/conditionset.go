package authorize

import (
	"context"
	"fmt"
	"iter"
	"strings"

	"k8s.io/apiserver/pkg/authorization/authorizer"

	"proviso.dev/proviso/internal/engine/expr"
)

// Common to all sets of conditions, whether they come from rules, webhooks or the author of a review.

// FactsOf returns what the enforcer knows. Data from another source is read through upstream's interface.
func FactsOf(ctx context.Context, data authorizer.ConditionsData) *expr.Data {
	if f, ok := data.(Facts); ok {
		return f.Expr()
	}
	cfg := expr.DataConfig{
		Operation: string(data.GetOperation()),
		Objects:   expr.Static{New: data.GetObject(), Old: data.GetOldObject()},
		OwnKind:   data.GetSubresource() == "",
		Options:   data.GetOperationOptions(),
		Shared:    expr.BudgetOf(ctx),
	}
	if data.GetOperation() == "CONNECT" {
		if cfg.Options == nil { // connect admission has its options as the object
			cfg.Options = data.GetObject()
		}
		cfg.Objects = nil
	}
	return expr.NewData(cfg)
}

// CheckCondition checks the limits of a condition that Kubernetes' own constructor of a set does not (CA-1).
func CheckCondition(text, description string) error {
	switch {
	case len(text) > expr.MaxLength:
		return fmt.Errorf("its text has %d bytes, the limit is %d", len(text), expr.MaxLength)
	case len(description) > expr.MaxDescription:
		return fmt.Errorf("its description has %d bytes, the limit is %d", len(description), expr.MaxDescription)
	}
	return nil
}

// Unmet names the conditions that would have had to hold (CA-10). It names only the first few: a review lists them all.
func Unmet(m authorizer.ConditionsMap) string { return unmet(m.AllowConditions()) }

func unmet(allows iter.Seq[authorizer.Condition]) string {
	const shown = 3
	var b strings.Builder
	n := 0
	for c := range allows {
		if n++; n > shown {
			continue
		}
		if n > 1 {
			b.WriteString("; ")
		}
		fmt.Fprintf(&b, "condition %q was not met", c.GetID())
		if d := c.GetDescription(); d != "" {
			fmt.Fprintf(&b, ": %s", d)
		}
	}
	if n > shown {
		fmt.Fprintf(&b, "; and %d more", n-shown)
	}
	return b.String()
}
