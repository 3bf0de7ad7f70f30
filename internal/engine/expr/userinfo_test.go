package expr

import "testing"

// CA-23: the spelling of the design means what ours means, in both steps, and is replaced by its value in what remains.
func TestUserInfo(t *testing.T) {
	c, err := New(Config{})
	if err != nil {
		t.Fatal(err)
	}
	req := &Request{User: "lucas", UID: "7", Groups: []string{"devs"}, Extra: map[string][]string{"k": {"v"}}}
	for source, want := range map[string]string{
		`request.userInfo.username == "lucas" && object.a == 1`:                                  `object.a == 1`,
		`request.userInfo.uid == "7" && "devs" in request.userInfo.groups && object.a == 1`:      `object.a == 1`,
		`request.userInfo.extra["k"].exists(v, v == "v") && object.a == 1`:                       `object.a == 1`,
		`object.name == request.userInfo.username`:                                               `object.name == "lucas"`,
		`request.userInfo.username == request.user && request.userInfo.groups == request.groups`: `true`,
		`request.userInfo.username == "eve" && object.a == 1`:                                    `false`,
	} {
		p, issues := c.Compile(source, Options{Kind: When})
		if issues != nil {
			t.Errorf("%s: %v", source, issues)
			continue
		}
		got := ""
		switch o := Condition(p).Decide(req, Allow); o.Truth() {
		case True:
			got = "true"
		case False:
			got = "false"
		case Unresolved:
			got = o.Residual().Text()
		}
		if got != want {
			t.Errorf("%s: %s, want %s", source, got, want)
		}
	}
	if _, issues := c.Compile(`request.userInfo.name == "x"`, Options{Kind: When}); issues == nil {
		t.Error("a field that does not exist compiles")
	}
}
