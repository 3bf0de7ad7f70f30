package sink

import (
	"strings"
	"testing"
)

// DA-17: sinks of namespaces are where an admin lets them be, by name or by address, and nowhere by default.
func TestAllow(t *testing.T) {
	a, err := ParseAllow([]string{"Audit.example.com.", "*.logs.example.com", "10.0.0.0/8", "192.0.2.7", "2001:db8::/32"})
	if err != nil {
		t.Fatal(err)
	}
	for host, want := range map[string]bool{
		"audit.example.com": true, "AUDIT.example.com.": true, "x.audit.example.com": true, // it may be at an address that is allowed
		"10.1.2.3": true, "11.1.2.3": false, "192.0.2.7": true, "192.0.2.8": false, "::ffff:10.1.2.3": true, "2001:db8::1": true, "2001:db9::1": false,
	} {
		if err := a.Host(host); (err == nil) != want {
			t.Errorf("%s: %v", host, err)
		}
	}
	names, err := ParseAllow([]string{"audit.example.com", "*.logs.example.com"})
	if err != nil {
		t.Fatal(err)
	}
	for host, want := range map[string]bool{
		"audit.example.com": true, "a.logs.example.com": true, "a.b.logs.example.com": true, "logs.example.com": false, ".logs.example.com": false,
		"evillogs.example.com": false, "audit.example.com.evil.com": false, "10.0.0.1": false, "": false,
	} {
		if err := names.Host(host); (err == nil) != want {
			t.Errorf("%s: %v", host, err)
		}
		if err := (Allow{}).Host(host); err == nil {
			t.Errorf("%s is allowed by default", host)
		}
	}
	// What a name is at decides, at every dial; and what no sink may reach is not reached.
	for _, tc := range []struct {
		host, at string
		want     string
	}{
		{"elsewhere.com", "10.1.2.3:443", ""}, {"elsewhere.com", "11.1.2.3:443", "does not allow"}, {"audit.example.com", "11.1.2.3:443", ""},
		{"audit.example.com", "169.254.169.254:80", "link-local"}, {"elsewhere.com", "[::ffff:10.1.2.3]:443", ""}, {"elsewhere.com", "x", "address of the sink"},
	} {
		err := a.control(tc.host, refuseAddress)("tcp", tc.at, nil)
		if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s at %s: %v", tc.host, tc.at, err)
		}
	}
	for _, bad := range []string{"", "https://audit.example.com", "a b", "*", "*.", "10.0.0.0/33", "fe80::1%eth0", "-x.com"} {
		if _, err := ParseAllow([]string{bad}); err == nil {
			t.Errorf("%q was taken", bad)
		}
	}
}
