package expr

import "testing"

// RD-12: it is known of a condition whether it looks at where a request is, and whether at what it asks for.
func TestLooks(t *testing.T) {
	for source, want := range map[string]Looks{
		`object.metadata.name == "x"`:                                               {},
		`request.user == "x"`:                                                       {Request: true},
		`request.userInfo.groups.exists(g, g == "x")`:                               {Request: true},
		`request.namespace == "x"`:                                                  {Request: true, Where: true},
		`request.user == request.namespace`:                                         {Request: true, Where: true},
		`request.namespace == "x" && request.verb == "get"`:                         {Request: true, Where: true, Action: true},
		`request.name == "x"`:                                                       {Request: true, Action: true},
		`[request].exists(r, r.namespace == "x")`:                                   {Request: true, Where: true, Action: true, Time: true},
		`operation == "DELETE"`:                                                     {Action: true},
		`namespaceObject.metadata.name == "x"`:                                      {Namespace: true},
		`["x"].exists(request, request == "x")`:                                     {},
		`request.namespace == "x" && request.labelSelector.requirements.size() > 0`: {Request: true, Where: true, Action: true},
	} {
		program := compile(t, When, source)
		if got := LooksOf(program); got != want {
			t.Errorf("%s: %+v, want %+v", source, got, want)
		}
		other := compile(t, When, `request.resource == "x"`)
		want.Request, want.Action = true, true
		if got := LooksOf(All(program, other)); got != want {
			t.Errorf("%s and another: %+v, want %+v", source, got, want)
		}
	}
	if got := LooksOf(nil); got != (Looks{}) {
		t.Errorf("none: %+v", got)
	}
}

// RD-12: of a request whose object has a name that nobody knows, conditions settle everything else.
func TestUnnamed(t *testing.T) {
	for source, want := range map[string]Truth{
		`request.name == "x"`:                                  Unresolved,
		`request.namespace == "nail" && request.name == "x"`:   False,
		`request.name == "x" && request.namespace == "nail"`:   False,
		`request.namespace == "hammer" && request.name == "x"`: Unresolved,
		`request.namespace == "hammer" || request.name == "x"`: True,
	} {
		if got := compile(t, When, source).Decide(edgar().Unnamed(), Allow).Truth(); got != want {
			t.Errorf("%s: %s, want %s", source, got, want)
		}
	}
	if r := edgar(); r.Unnamed().Name != "" || r.gaps.object {
		t.Error("the request itself is another one")
	}
}
