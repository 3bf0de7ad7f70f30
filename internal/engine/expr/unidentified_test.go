package expr

import (
	"testing"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
)

// TR-21, NI-8: what is decided of a subject that is not fully known holds for everybody who it may be.
func TestUnidentifiedCallersStayOpen(t *testing.T) {
	c, err := New(Config{})
	if err != nil {
		t.Fatal(err)
	}
	people := []user.DefaultInfo{
		{Name: "bob", Groups: []string{"dev"}}, {Name: "agent:7", Groups: []string{"dev", "ops"}},
		{Name: "bob", Groups: []string{"ops", "dev"}, Extra: map[string][]string{"team": {"a"}}, UID: "7"}, {Name: "", Groups: []string{"dev"}},
	}
	open, settled := 0, 0
	for _, source := range []string{
		`request.user == "bob"`, `request.user.startsWith("agent:")`, `request.userInfo.username != "bob"`, `request.uid == ""`, `"ops" in request.groups`,
		`"dev" in request.groups`, `!("ops" in request.groups)`, `request.groups.exists(g, g == "ops")`, `request.groups.exists(g, g == "dev")`, `request.groups.all(g, g == "dev")`,
		`request.groups.exists_one(g, g.startsWith("d"))`, `size(request.groups) == 1`, `request.groups == ["dev"]`, `request.groups[0] == "dev"`, `request.groups.filter(g, g == "ops").size() == 0`,
		`has(request.extra.team)`, `"a" in request.extra["team"]`, `request.extra == {}`, `request.verb == "get"`, `request.verb == "get" || request.user == "bob"`, `request.verb == "list" && request.user == "bob"`,
		`request.userInfo.groups.exists(g, g == "ops")`, `request.groups.map(g, g + "x").exists(g, g == "opsx")`, `"ops" in request.groups ? request.user == "bob" : false`,
	} {
		program, issues := c.Compile(source, Options{Kind: When})
		if len(issues) > 0 {
			t.Fatalf("%s: %v", source, issues)
		}
		for _, effect := range []Effect{Allow, Deny} {
			for _, of := range []*Unidentified{
				{DefaultInfo: user.DefaultInfo{Groups: []string{"dev"}}, Nameless: true}, {DefaultInfo: user.DefaultInfo{Name: "bob", Groups: []string{"dev"}}},
			} {
				known := program.Decide(NewRequest(authorizer.AttributesRecord{User: of, Verb: "get"}), effect).Truth()
				if known == Unresolved {
					open++
					continue
				}
				settled++
				for i := range people {
					if !of.Nameless && people[i].Name != of.Name {
						continue
					}
					truth := program.Decide(NewRequest(authorizer.AttributesRecord{User: &people[i], Verb: "get"}), effect).Truth()
					if truth != known && !(effect == Allow && known == False && truth == Failed) {
						t.Errorf("%s of %+v is %v, but of %+v it is %v", source, of, known, people[i], truth)
					}
				}
			}
		}
	}
	if open < 40 || settled < 10 {
		t.Errorf("%d are open and %d are settled: too few to prove anything", open, settled)
	}
	program, _ := c.Compile(`object.metadata.labels.owner == request.user`, Options{Kind: When})
	member := NewRequest(authorizer.AttributesRecord{User: &Unidentified{Nameless: true}, Verb: "create"})
	if got := program.Text(member, Allow); got != "object.metadata.labels.owner == request.user" {
		t.Errorf("the text is %s: it invents a name", got)
	}
}
