package e2e

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"k8s.io/client-go/rest"

	"proviso.dev/proviso/internal/platform/pki"
)

const timedBindings = `apiVersion: authorization.proviso.dev/v1alpha1
kind: RoleBinding
metadata: {name: tina, namespace: team}
roleRef: {namespace: team, name: small}
userNames: [tina]
notAfter: %s
`

// clock: TM-4 and TM-16 beside a stock server. While the clock is behind an instant that was seen before, which is in
// the cluster's etcd, rights that end do not allow, also after a restart; the sidecar says so, and --agree ends it.
func (p *pair) clock(t *testing.T) {
	t.Helper()
	p.apply(fmt.Sprintf(timedBindings, time.Now().Add(24*time.Hour).UTC().Format(time.RFC3339)))
	fresh := func() string { return sized(fmt.Sprintf("t-%d", time.Now().UnixNano()), "small") }
	p.allowed("tina", fresh())
	p.said("1", "")
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{p.Store}, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = client.Close() }()
	if _, err := client.Put(t.Context(), "/proviso/proviso.dev/time/largest", time.Now().Add(time.Hour).UTC().Format(time.RFC3339Nano)); err != nil {
		t.Fatal(err)
	}
	p.said("0", "behind an instant that was seen before")
	p.refused("tina", fresh(), "cannot create")
	p.allowed("anna", fresh())
	if out, ok := p.check(); !ok || !strings.Contains(out, "warning: the clock of this server") {
		t.Errorf("check says %s", out)
	}
	p.car.kill()
	p.run(t)
	p.honoured()
	p.refused("tina", fresh(), "cannot create")
	p.said("0", "behind an instant that was seen before")
	p.car.kill()
	p.car = spawn(t, p.Car[0], append(p.Car[1:], "--agree")...)
	p.honoured()
	p.allowed("tina", fresh())
	p.said("1", "")
}

// said waits until the metric of the sidecar has a value, and looks at what /readyz says then.
func (p *pair) said(trusted, doubt string) {
	p.t.Helper()
	files := pki.BesideFiles(p.Side)
	client, err := rest.HTTPClientFor(&rest.Config{TLSClientConfig: rest.TLSClientConfig{CAFile: files.CACert, CertFile: files.AskingCert, KeyFile: files.AskingKey}})
	if err != nil {
		p.t.Fatal(err)
	}
	get := func(path string) string {
		resp, err := client.Get("https://" + p.Listen + path)
		if err != nil {
			return err.Error()
		}
		defer func() { _ = resp.Body.Close() }()
		body, _ := io.ReadAll(resp.Body)
		if resp.StatusCode != http.StatusOK {
			return resp.Status
		}
		return string(body)
	}
	p.await("the metric to be "+trusted, func() bool { return strings.Contains(get("/metrics"), "\nproviso_clock_trusted "+trusted+"\n") })
	p.await("readiness to tell of the clock", func() bool {
		body := get("/readyz?verbose")
		return strings.Contains(body, "readyz check passed") && strings.Contains(body, "[!]clock: ") == (doubt != "") && strings.Contains(body, doubt)
	})
}
