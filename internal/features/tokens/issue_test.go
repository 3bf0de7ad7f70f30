package tokens

import (
	"testing"
	"time"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/utils/ptr"

	"proviso.dev/proviso/internal/request/requestctx"
	"proviso.dev/proviso/internal/state/snapshot"
)

// TK-3: a token expires with its credential, and soon if the credential may have no end.
func TestUntil(t *testing.T) {
	now, i := time.Unix(1_000_000, 0), &issuer{longest: 24 * time.Hour}
	for name, c := range map[string]struct {
		b    requestctx.Bearer
		want time.Duration
	}{
		"not known":           {requestctx.Bearer{}, unknown},
		"late":                {requestctx.Bearer{Until: now.Add(100 * time.Hour)}, 24 * time.Hour},
		"soon":                {requestctx.Bearer{Until: now.Add(time.Minute)}, time.Minute},
		"late, or not known":  {requestctx.Bearer{Until: now.Add(100 * time.Hour), Endless: true}, unknown},
		"soon, or not known":  {requestctx.Bearer{Until: now.Add(time.Minute), Endless: true}, time.Minute},
		"today, or not known": {requestctx.Bearer{Until: now.Add(3 * time.Hour), Endless: true}, unknown},
	} {
		if got := i.until(now, ptr.To(int64(1_000_000)), &c.b).Sub(now); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

// TK-3: no token is issued for a credential that was not inspected.
func TestCallersThatWereInspected(t *testing.T) {
	u := &user.DefaultInfo{Name: "alice"}
	for _, inspected := range []bool{true, false} {
		ctx := request.WithUser(requestctx.With(t.Context(), &snapshot.Snapshot{}), u)
		requestctx.From(ctx).Bears(&requestctx.Bearer{User: u, Inspected: inspected})
		if _, _, err := (&issuer{}).caller(ctx); (err == nil) != inspected {
			t.Errorf("inspected %v: %v", inspected, err)
		}
	}
}
