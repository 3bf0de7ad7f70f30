package expr

import (
	"context"
	"sync"
	"testing"
)

// Programs, requests and residuals are shared between requests and may be used
// concurrently; only Data belongs to one. Meant to be run with -race.
func TestConcurrentUse(t *testing.T) {
	programs := []*Program{
		compile(t, When, `object.x == 1 && request.user == "edgar"`),
		compile(t, When, `request.groups.exists(g, g == object.owner) || request.extra["team"][0] == "blue"`),
		compile(t, When, `object.l.all(x, x == request.user)`),
		compile(t, When, `object.?x.orValue(1) == 1`),
		compile(t, Where, `resource.metadata.labels.env == "dev"`),
	}
	req := edgar()
	var residuals []Residual
	for _, p := range programs {
		residuals = append(residuals, Undecided(p, req, Deny).Residual())
	}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 20 {
				d := data("CREATE", map[string]any{"x": int64(1), "l": []any{"edgar"}}, nil)
				for i, p := range programs {
					p.Decide(req, Allow)
					_, _ = residuals[i].Evaluate(context.Background(), d)
					Implied(p, req, nil)
				}
			}
			for _, r := range residuals {
				r.Text()
			}
			if _, issues := compiler(t).Compile(`object.x == 1`, Options{}); issues != nil {
				t.Error(issues)
			}
		})
	}
	wg.Wait()
}
