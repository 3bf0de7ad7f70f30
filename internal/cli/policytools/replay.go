package policytools

import (
	"context"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"text/tabwriter"
	"time"

	"proviso.dev/proviso/internal/analysis/auditlog"
	"proviso.dev/proviso/internal/hosts/offline"
	"proviso.dev/proviso/internal/hosts/offline/replay"
	"proviso.dev/proviso/internal/platform/terminal"
)

// replayed decides the requests of logs by two hosts (TR-4).
func (o *PlanOptions) replayed(ctx context.Context, before, after *offline.Host) (*replay.Report, error) {
	workers := runtime.GOMAXPROCS(0)
	r, err := replay.New(replay.Config{Before: before, After: after, Workers: workers})
	if err != nil {
		return nil, err
	}
	var total auditlog.Tally
	for _, name := range o.Replay {
		tally, err := o.readLog(ctx, name, auditlog.Config{Workers: workers, Each: func(worker int, request *auditlog.Request) { r.Request(ctx, worker, request) }})
		if err != nil {
			return nil, fmt.Errorf("--replay %s: %w", name, err)
		}
		total.Add(tally)
	}
	if err := total.Answerable(o.Replay...); err != nil {
		return nil, fmt.Errorf("--replay: %w", err)
	}
	return r.Report(total), nil
}

func (o *PlanOptions) readLog(ctx context.Context, name string, cfg auditlog.Config) (auditlog.Tally, error) {
	log := o.In
	if name != "-" {
		file, err := os.Open(name)
		if err != nil {
			return auditlog.Tally{}, err
		}
		defer file.Close()
		log = file
	}
	told := time.Now()
	cfg.Progress = func(t auditlog.Tally) {
		if time.Since(told) >= 5*time.Second {
			told = time.Now()
			terminal.Fprintf(o.ErrOut, "%s: %d requests, %d MB\n", name, t.Requests, t.Bytes>>20)
		}
	}
	return auditlog.Read(ctx, log, cfg)
}

// replayLines say what came of a replay: first the flips as a table, then what was not decided.
func replayLines(r *replay.Report) (rows [][]string, notes []string) {
	for _, f := range r.Flips {
		what := f.Resource
		if f.APIGroup != "" {
			what += "." + f.APIGroup
		}
		if f.Path != "" {
			what = f.Path
		}
		names := f.Names
		if len(names) == 0 && f.Name != "" {
			names = []string{f.Name}
		}
		if len(names) > 0 {
			what += " (" + strings.Join(names, ", ") + ")"
		}
		where := f.Namespace
		if where == "" {
			where = "-"
		}
		rows = append(rows, []string{fmt.Sprint(f.Count), f.User, f.Verb + " " + what, where, fmt.Sprintf("%s → %s", f.Before, f.After), f.Rule,
			f.First.UTC().Format(time.RFC3339), f.Last.UTC().Format(time.RFC3339)})
	}
	note := func(n int64, format string, args ...any) {
		if n > 0 {
			notes = append(notes, fmt.Sprintf("%d ", n)+fmt.Sprintf(format, args...))
		}
	}
	note(r.MoreFlips, "more requests with a different result")
	for _, u := range r.Because {
		if u.Level != "" {
			note(u.Count, "undecided: %s (requires audit level %s)", u.Reason, u.Level)
		} else {
			note(u.Count, "undecided: %s", u.Reason)
		}
	}
	note(r.Otherwise, "were decided differently when they were recorded: the policy has changed since, or a webhook decided")
	note(r.Impersonated, "impersonated: the right to impersonate is not checked again")
	note(r.Broken, "lines could not be read")
	note(r.Foreign, "lines are not audit events")
	note(r.Anonymous, "events without a user")
	for _, p := range r.Problems {
		notes = append(notes, p.String())
	}
	return rows, notes
}

var replayColumns = []string{"COUNT", "USER", "REQUEST", "NAMESPACE", "CHANGE", "BY", "FIRST", "LAST"}

func printReplay(out io.Writer, r *replay.Report) error {
	rows, notes := replayLines(r)
	terminal.Fprintf(out, "\nOf %d recorded requests, %s.\n", r.Requests, flipped(r))
	if len(rows) > 0 {
		w := tabwriter.NewWriter(out, 0, 4, 3, ' ', 0)
		terminal.Fprintln(w, terminal.Lines(strings.Join(replayColumns, "\t")))
		for _, row := range rows {
			for i := range row {
				row[i] = terminal.Text(row[i])
			}
			terminal.Fprintln(w, terminal.Lines(strings.Join(row, "\t")))
		}
		if err := w.Flush(); err != nil {
			return err
		}
	}
	for _, note := range notes {
		terminal.Fprintln(out, note)
	}
	return nil
}

func flipped(r *replay.Report) string {
	n := r.MoreFlips
	for _, f := range r.Flips {
		n += f.Count
	}
	if n == 0 {
		return "none would be decided differently"
	}
	return fmt.Sprintf("%d would be decided differently", n)
}

func markdownReplay(b *strings.Builder, r *replay.Report) {
	rows, notes := replayLines(r)
	terminal.Fprintf(b, "\nOf %d recorded requests, %s.\n", r.Requests, flipped(r))
	if len(rows) > 0 {
		terminal.Fprintf(b, "\n| %s |\n|%s\n", strings.ToLower(strings.Join(replayColumns, " | ")), strings.Repeat("---|", len(replayColumns)))
		for _, row := range rows {
			terminal.Fprintf(b, "| %s |\n", strings.Join(escaped(row), " | "))
		}
	}
	for _, note := range notes {
		terminal.Fprintf(b, "\n- %s", note)
	}
	if len(notes) > 0 {
		b.WriteString("\n")
	}
}

// escaped keeps cells of a markdown table apart.
func escaped(cells []string) (out []string) {
	for _, cell := range cells {
		out = append(out, strings.NewReplacer("|", "\\|", "\n", " ").Replace(cell))
	}
	return out
}
