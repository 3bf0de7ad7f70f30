package sidecar

import (
	"crypto/sha256"
	"crypto/x509"
	"fmt"
	"net/http"
	"os"
	"sync"
	"time"

	certutil "k8s.io/client-go/util/cert"

	"proviso.dev/proviso/internal/platform/pki"
)

// trusted returns a check for requests of the API server for which init made a certificate.
func (s *sidecar) trusted() (func(*http.Request) error, error) {
	data, err := os.ReadFile(s.files.CACert)
	if err != nil {
		return nil, err
	}
	certs, err := certutil.ParseCertsPEM(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s.files.CACert, err)
	}
	askers := &askers{roots: x509.NewCertPool(), now: time.Now}
	for _, c := range certs {
		askers.roots.AddCert(c)
	}
	return askers.trusted, nil
}

// askers are the callers that may ask. Verifying a certificate takes longer than a decision, so each of the few
// certificates is verified once: the result does not change until something in its chain expires.
type askers struct {
	roots *x509.CertPool
	now   func() time.Time
	until sync.Map // time.Time by the hash of the certificate; only of those that were found good
}

func (a *askers) trusted(r *http.Request) error {
	if r.TLS == nil || len(r.TLS.PeerCertificates) == 0 {
		return errStranger
	}
	leaf, now := r.TLS.PeerCertificates[0], a.now()
	if leaf.Subject.CommonName != pki.AskingServer {
		return errStranger
	}
	key := sha256.Sum256(leaf.Raw)
	if until, ok := a.until.Load(key); ok && now.Before(until.(time.Time)) {
		return nil
	}
	chains, err := leaf.Verify(x509.VerifyOptions{Roots: a.roots, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}, CurrentTime: now})
	if err != nil {
		return err
	}
	until := leaf.NotAfter
	for _, c := range chains[0] {
		if c.NotAfter.Before(until) {
			until = c.NotAfter
		}
	}
	a.until.Store(key, until)
	return nil
}
