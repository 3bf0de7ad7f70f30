package cli

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"proviso.dev/proviso/internal/cli/atflag"
)

// Term is when a grant counts.
type Term struct {
	// For is how long, and From since when; empty is at once.
	For  time.Duration
	From string
}

func (t *Term) addFlags(cmd *cobra.Command) {
	cmd.Flags().DurationVar(&t.For, "for", 0, "How long the grant counts, such as 1h or 90m. It then ends by itself, and open connections with it. Default: until it is revoked.")
	cmd.Flags().StringVar(&t.From, "from", "", "When the grant begins to count: a time such as 2026-11-17T09:00:00Z, or +2h for in two hours. Default: now.")
}

// interval are the edges of the term; nil where there is none.
func (t *Term) interval(now time.Time) (notBefore, notAfter *metav1.Time, err error) {
	from := now.Truncate(time.Second)
	if t.From != "" {
		if from, err = atflag.Parse(t.From, now); err != nil {
			return nil, nil, fmt.Errorf("--from: %w", err)
		}
		notBefore = &metav1.Time{Time: from}
	}
	switch {
	case t.For == 0:
		return notBefore, nil, nil
	case t.For < 0:
		return nil, nil, fmt.Errorf("--for=%s: want a duration such as 1h", t.For)
	case t.For%time.Second != 0:
		return nil, nil, fmt.Errorf("--for=%s: want whole seconds", t.For)
	}
	notAfter = &metav1.Time{Time: from.Add(t.For)}
	if !notAfter.After(now) {
		return nil, nil, fmt.Errorf("the grant would end at %s, which is past", spellTime(notAfter.Time))
	}
	return notBefore, notAfter, nil
}

func spellTime(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// bindingName is the name of a binding with a term: it is not that of the binding which has none, and says whom it is
// for and until when.
func bindingName(role string, users, groups []string, until *metav1.Time) string {
	who := "nobody"
	if all := append(append([]string{}, users...), groups...); len(all) > 0 {
		who = all[0]
	}
	end := "later"
	if until != nil {
		end = until.UTC().Format("20060102-150405")
	}
	part := func(text string, limit int) string {
		text = notInNames.ReplaceAllString(strings.ToLower(text), "-")
		return strings.Trim(strings.ReplaceAll(text[:min(len(text), limit)], ".", "-"), "-")
	}
	return strings.Trim(part(role, 80)+"-"+part(who, 80)+"-until-"+end, "-")
}
