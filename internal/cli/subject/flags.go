package subject

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/pflag"

	"proviso.dev/proviso/internal/engine/ruleset"
)

// Flags name users, groups and service accounts.
type Flags struct {
	Users, Groups, ServiceAccounts []string
	// former are values of the flag that these have replaced.
	former     []string
	formerName string
}

// Add adds --user, --group and --serviceaccount. Usage says what is done with the subjects.
func (f *Flags) Add(fs *pflag.FlagSet, usage string) {
	fs.StringArrayVar(&f.Users, "user", nil, usage+" A user; may be repeated.")
	fs.StringArrayVar(&f.Groups, "group", nil, usage+" A group; may be repeated.")
	fs.StringArrayVar(&f.ServiceAccounts, "serviceaccount", nil, usage+" A service account as NAMESPACE:NAME; may be repeated.")
}

// AddFormer keeps the name of a flag that took all kinds of subjects.
func (f *Flags) AddFormer(fs *pflag.FlagSet, name string) {
	f.formerName = name
	fs.StringSliceVar(&f.former, name, nil, "The former name of --user, --group and --serviceaccount: a user, group:NAME or serviceaccount:NAMESPACE/NAME.")
	_ = fs.MarkDeprecated(name, "use --user, --group or --serviceaccount")
}

// Given reports whether any subject is named.
func (f *Flags) Given() bool {
	return len(f.Users)+len(f.Groups)+len(f.ServiceAccounts)+len(f.former) > 0
}

// All are the subjects: users, then service accounts, which are users, then groups.
func (f *Flags) All() (all []ruleset.Subject, err error) {
	add := func(flag, name string, group bool) {
		if name == "" {
			err = errors.Join(err, fmt.Errorf("--%s: the name is missing", flag))
		}
		all = append(all, ruleset.Subject{Group: group, Name: name})
	}
	for _, name := range f.Users {
		add("user", name, false)
	}
	for _, name := range f.ServiceAccounts {
		account, problem := accountOf(name, ":")
		if problem != nil {
			return nil, fmt.Errorf("--serviceaccount %s: want NAMESPACE:NAME, such as hammer:builder", name)
		}
		add("serviceaccount", account, false)
	}
	for _, name := range f.Groups {
		add("group", name, true)
	}
	for _, text := range f.former {
		one, problem := parse(text)
		if problem != nil {
			return nil, fmt.Errorf("--%s %s: %w", f.formerName, text, problem)
		}
		all = append(all, one)
	}
	return all, err
}

// parse reads a user, group:NAME or serviceaccount:NAMESPACE/NAME.
func parse(text string) (ruleset.Subject, error) {
	if group, ok := strings.CutPrefix(text, "group:"); ok && group != "" {
		return ruleset.Subject{Group: true, Name: group}, nil
	}
	if account, ok := strings.CutPrefix(text, "serviceaccount:"); ok {
		name, err := accountOf(account, "/")
		if err != nil {
			return ruleset.Subject{}, errors.New("want serviceaccount:NAMESPACE/NAME")
		}
		return ruleset.Subject{Name: name}, nil
	}
	if user := strings.TrimPrefix(text, "user:"); user != "" && text != "group:" {
		return ruleset.Subject{Name: user}, nil
	}
	return ruleset.Subject{}, errors.New("want a user, group:NAME or serviceaccount:NAMESPACE/NAME")
}

// accountOf is the user that a service account is.
func accountOf(text, between string) (string, error) {
	namespace, name, ok := strings.Cut(text, between)
	if !ok || namespace == "" || name == "" {
		return "", errors.New("not a service account")
	}
	return "system:serviceaccount:" + namespace + ":" + name, nil
}
