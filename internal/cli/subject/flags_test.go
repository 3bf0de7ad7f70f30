package subject

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"

	"proviso.dev/proviso/internal/engine/ruleset"
)

// OP-10: subjects are named the same way in every command, and the former way still works.
func TestSubjects(t *testing.T) {
	user, group, account := ruleset.Subject{Name: "edgar"}, ruleset.Subject{Group: true, Name: "team-a"}, ruleset.Subject{Name: "system:serviceaccount:ci:robot"}
	for args, want := range map[string][]ruleset.Subject{
		"":                             nil,
		"--user edgar":                 {user},
		"--group team-a --user edgar":  {user, group},
		"--serviceaccount ci:robot":    {account},
		"--subject edgar,group:team-a": {user, group},
		"--subject serviceaccount:ci/robot --subject user:edgar": {account, user},
	} {
		f, got, err := read(args)
		if diff := cmp.Diff(want, got); diff != "" || err != nil || f.Given() != (args != "") {
			t.Errorf("%s: %v, given %v\n%s", args, err, f.Given(), diff)
		}
	}
	for args, want := range map[string]string{
		"--serviceaccount robot": "want NAMESPACE:NAME", "--serviceaccount ci:": "want NAMESPACE:NAME", "--user=": "--user: the name is missing",
		"--subject group:": "--subject group:: want a user", "--subject serviceaccount:robot": "want serviceaccount:NAMESPACE/NAME",
	} {
		if _, _, err := read(args); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", args, err)
		}
	}
}

func read(args string) (*Flags, []ruleset.Subject, error) {
	f, fs := &Flags{}, pflag.NewFlagSet("", pflag.ContinueOnError)
	f.Add(fs, "Whom.")
	f.AddFormer(fs, "subject")
	fs.SetOutput(&strings.Builder{})
	if err := fs.Parse(strings.Fields(args)); err != nil {
		return f, nil, err
	}
	all, err := f.All()
	return f, all, err
}
