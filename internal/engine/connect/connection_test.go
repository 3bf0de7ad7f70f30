package connect

import (
	"testing"

	utilnet "k8s.io/apimachinery/pkg/util/net"
)

// TestNameAsTheEndpointReadsIt: the name is what the proxy endpoints themselves take out of the URL (PO-20).
func TestNameAsTheEndpointReadsIt(t *testing.T) {
	for _, name := range []string{
		"", "admin", "admin:80", "admin:", "http:admin:80", "https:admin:", "https:admin:web", ":admin:80", ":admin:", ":80", ":", "::", "http::80",
		"ftp:admin:80", "HTTP:admin:80", "http:admin:80:", "a:b:c:d", "http:admin", "https:", "http:http:http",
	} {
		want := name
		if _, bare, _, valid := utilnet.SplitSchemeNamePort(name); valid {
			want = bare
		}
		if got := Name(Proxy, name); got != want {
			t.Errorf("%q is about %q, want %q", name, got, want)
		}
		if got := Name(Exec, name); got != name {
			t.Errorf("exec takes the name as it is: %q became %q", name, got)
		}
	}
}

func TestOf(t *testing.T) {
	for _, c := range []struct {
		group, resource, sub string
		want                 Kind
	}{
		{"", "pods", "exec", Exec}, {"", "pods", "attach", Exec}, {"", "pods", "portforward", Exec},
		{"", "pods", "proxy", Proxy}, {"", "services", "proxy", Proxy}, {"", "nodes", "proxy", Proxy},
		{"", "pods", "", None}, {"", "pods", "log", None}, {"", "services", "exec", None}, {"example.com", "pods", "exec", None},
	} {
		if c.want != None && !Connects(c.sub) {
			t.Errorf("%s connects", c.sub)
		}
		if got := Of(c.group, c.resource, c.sub); got != c.want {
			t.Errorf("%s %s/%s: %d, want %d", c.group, c.resource, c.sub, got, c.want)
		}
	}
}
