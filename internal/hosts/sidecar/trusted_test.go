package sidecar

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"math/big"
	"net/http"
	"testing"
	"time"

	"proviso.dev/proviso/internal/platform/pki"
)

// SC-8: only who has the certificate that init made is answered; one that was good is not for ever.
func TestWhoMayAsk(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	key := func() *ecdsa.PrivateKey {
		k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		return k
	}
	certificate := func(name string, ca *x509.Certificate, caKey *ecdsa.PrivateKey, days int) (*x509.Certificate, *ecdsa.PrivateKey) {
		k := key()
		c := &x509.Certificate{SerialNumber: big.NewInt(now.UnixNano()), Subject: pkix.Name{CommonName: name}, NotBefore: now.Add(-time.Hour), NotAfter: now.AddDate(0, 0, days)}
		if ca == nil {
			c.IsCA, c.BasicConstraintsValid, c.KeyUsage = true, true, x509.KeyUsageCertSign
			ca, caKey = c, k
		} else {
			c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
		}
		der, err := x509.CreateCertificate(rand.Reader, c, ca, k.Public(), caKey)
		if err != nil {
			t.Fatal(err)
		}
		made, err := x509.ParseCertificate(der)
		if err != nil {
			t.Fatal(err)
		}
		return made, k
	}
	ca, caKey := certificate("ca", nil, nil, 10)
	other, otherKey := certificate("ca", nil, nil, 10)
	good, _ := certificate(pki.AskingServer, ca, caKey, 5)
	longer, _ := certificate(pki.AskingServer, ca, caKey, 20)
	forged, _ := certificate(pki.AskingServer, other, otherKey, 5)
	somebody, _ := certificate("somebody", ca, caKey, 5)

	a := &askers{roots: x509.NewCertPool(), now: func() time.Time { return now }}
	a.roots.AddCert(ca)
	ask := func(c *x509.Certificate) bool {
		r := &http.Request{TLS: &tls.ConnectionState{}}
		if c != nil {
			r.TLS.PeerCertificates = []*x509.Certificate{c}
		}
		return a.trusted(r) == nil
	}
	check := func(want map[*x509.Certificate]bool) {
		t.Helper()
		for range 2 { // the second time it is remembered
			for c, trusted := range want {
				if ask(c) != trusted {
					t.Errorf("%v at %v: trusted %v", c, now, !trusted)
				}
			}
		}
	}
	check(map[*x509.Certificate]bool{good: true, longer: true, forged: false, somebody: false, nil: false})
	now = now.AddDate(0, 0, 6) // the certificate has expired
	check(map[*x509.Certificate]bool{good: false, longer: true, forged: false})
	now = now.AddDate(0, 0, 6) // so has the authority
	check(map[*x509.Certificate]bool{good: false, longer: false})
	if a.trusted(&http.Request{}) == nil {
		t.Error("a request without TLS is trusted")
	}
}
