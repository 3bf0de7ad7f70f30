package monitoring

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"
)

// expressions parses PromQL as Prometheus does, and wants every metric of ours to be in the reference.
func expressions(t *testing.T, all map[string]string) {
	t.Helper()
	reference, err := os.ReadFile("../../docs/reference/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	promql := parser.NewParser(parser.Options{})
	for where, text := range all {
		parsed, err := promql.ParseExpr(strings.NewReplacer("$__rate_interval", "5m", "$instance", ".*").Replace(text))
		if err != nil {
			t.Errorf("%s: %v", where, err)
			continue
		}
		parser.Inspect(parsed, func(n parser.Node, _ []parser.Node) error {
			s, ok := n.(*parser.VectorSelector)
			if !ok || !strings.HasPrefix(s.Name, "proviso_") {
				return nil
			}
			name := strings.TrimSuffix(s.Name, "_bucket")
			row := regexp.MustCompile("(?m)^\\| `" + name + "` \\|.*$").Find(reference)
			if row == nil {
				t.Errorf("%s: there is no metric %s", where, name)
			}
			for _, m := range s.LabelMatchers {
				if m.Name != model.MetricNameLabel && m.Name != "instance" && !bytes.Contains(row, []byte("`"+m.Name+"`")) {
					t.Errorf("%s: %s has no label %s", where, name, m.Name)
				}
			}
			return nil
		})
	}
}

// OP-5: Prometheus takes the alerts, and what they ask for exists.
func TestAlerts(t *testing.T) {
	data, err := os.ReadFile("../../deploy/monitoring/alerts.yaml")
	if err != nil {
		t.Fatal(err)
	}
	groups, errs := rulefmt.Parse(data, false, model.UTF8Validation, parser.NewParser(parser.Options{}), slog.New(slog.DiscardHandler))
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	guide, err := os.ReadFile("../../docs/how-to/monitoring.md")
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for _, g := range groups.Groups {
		for _, r := range g.Rules {
			all[r.Alert] = r.Expr
			if r.Annotations["summary"] == "" || r.Annotations["description"] == "" || r.Labels["severity"] == "" {
				t.Errorf("%s does not say what is wrong, how bad it is, or what to do", r.Alert)
			}
			if !bytes.Contains(guide, []byte("`"+r.Alert+"`")) {
				t.Errorf("the guide does not say what to do about %s", r.Alert)
			}
		}
	}
	if len(all) < 8 {
		t.Errorf("%d alerts", len(all))
	}
	expressions(t, all)
}

// OP-5: the dashboard is what Grafana imports, its panels do not overlap, and what they show exists.
func TestDashboard(t *testing.T) {
	data, err := os.ReadFile("../../deploy/monitoring/dashboard.json")
	if err != nil {
		t.Fatal(err)
	}
	var d struct {
		Title, UID    string
		SchemaVersion int
		Panels        []struct {
			ID          int
			Type, Title string
			GridPos     struct{ H, W, X, Y int }
			Targets     []struct{ RefID, Expr string }
		}
	}
	if err := json.Unmarshal(data, &d); err != nil {
		t.Fatal(err)
	}
	if d.Title == "" || d.UID == "" || d.SchemaVersion == 0 || len(d.Panels) < 10 {
		t.Errorf("%q %q, schema %d, %d panels", d.Title, d.UID, d.SchemaVersion, len(d.Panels))
	}
	all, ids := map[string]string{}, map[int]bool{}
	taken := map[[2]int]string{}
	for _, p := range d.Panels {
		if ids[p.ID] {
			t.Errorf("two panels have the ID %d", p.ID)
		}
		ids[p.ID] = true
		for x := range p.GridPos.W {
			for y := range p.GridPos.H {
				at := [2]int{p.GridPos.X + x, p.GridPos.Y + y}
				if taken[at] != "" || at[0] >= 24 {
					t.Errorf("%q and %q overlap, or are too wide", p.Title, taken[at])
				}
				taken[at] = p.Title
			}
		}
		if p.Type != "row" && len(p.Targets) == 0 {
			t.Errorf("%q shows nothing", p.Title)
		}
		for _, target := range p.Targets {
			all[p.Title+" "+target.RefID] = target.Expr
		}
	}
	expressions(t, all)
}
