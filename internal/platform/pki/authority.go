package pki

import (
	"bytes"
	"crypto"
	"crypto/x509"
	"fmt"
	"time"

	certutil "k8s.io/client-go/util/cert"
)

// signer is a certificate authority in memory.
type signer struct {
	cert *x509.Certificate
	key  crypto.Signer
	// certPath and remedy are for messages.
	certPath, remedy string
	// bundle is the certificate file as it is on disk.
	bundle []byte
}

// loadSigner reads an authority. Remedy says how to start over without it, since it is never made again by itself.
func loadSigner(certPath, keyPath, remedy string) (*signer, error) {
	bundle, err := read(certPath, false, remedy)
	if err != nil {
		return nil, err
	}
	certs, err := certutil.ParseCertsPEM(bundle)
	if err != nil {
		return nil, &FileError{certPath, "is corrupt: " + err.Error(), remedy}
	}
	key, err := loadKey(keyPath, remedy)
	if err != nil {
		return nil, err
	}
	a := &signer{cert: certs[0], key: key, certPath: certPath, remedy: remedy, bundle: bundle}
	if a.selfIssued() {
		if err := a.cert.CheckSignatureFrom(a.cert); err != nil {
			return nil, &FileError{certPath, "is corrupt: " + err.Error(), remedy}
		}
	}
	if usage := a.cert.KeyUsage; !a.cert.IsCA || usage != 0 && usage&x509.KeyUsageCertSign == 0 { // none may be named
		return nil, &FileError{certPath, "is not the certificate of an authority", remedy}
	}
	if !samePublic(a.cert.PublicKey, key.Public()) {
		return nil, &FileError{keyPath, "does not fit " + certPath, remedy}
	}
	return a, nil
}

func (a *signer) selfIssued() bool { return bytes.Equal(a.cert.RawIssuer, a.cert.RawSubject) }

// check refuses an authority with which nothing valid can be signed now.
func (a *signer) check(now time.Time) error {
	if now.After(a.cert.NotAfter) {
		return &FileError{a.certPath, "expired on " + date(a.cert.NotAfter), a.remedy}
	}
	if now.Before(a.cert.NotBefore) {
		return &FileError{a.certPath, "is not valid before " + date(a.cert.NotBefore), "check this machine's clock"}
	}
	return nil
}

// authority returns the authority of the given name, creating it if nothing was signed by one before.
func (e *ensurer) authority(f family) (*signer, error) {
	certPath, keyPath, remedy := e.path(f.file+".crt"), e.path(f.file+".key"), f.remedy
	now := e.cfg.Clock.Now()
	if exists(certPath) {
		a, err := loadSigner(certPath, keyPath, remedy)
		if err != nil {
			return nil, err
		}
		if err := a.check(now); err != nil {
			return nil, err
		}
		// Only what this package made is renewed: a foreign authority may carry constraints we do not know.
		if a.cert.Subject.CommonName != f.commonName || !a.selfIssued() {
			return a, nil
		}
		if a.cert.NotAfter.Sub(now) > life(a.cert)/3 {
			return a, nil
		}
		return e.writeAuthority(f, a.key, a.cert)
	}
	issued := f.issued
	for _, l := range f.leaves {
		issued = append(issued, e.path(l.file+".crt"))
	}
	for _, path := range issued {
		if exists(path) {
			return nil, &FileError{certPath, "is missing although it signed " + path, remedy}
		}
	}
	// A key alone is what a start that was killed between the two files leaves behind.
	if exists(keyPath) {
		key, err := loadKey(keyPath, remedy)
		if err != nil {
			return nil, err
		}
		return e.writeAuthority(f, key, nil)
	}
	key, encoded, err := newKey()
	if err != nil {
		return nil, err
	}
	if err := e.write(keyPath, encoded); err != nil {
		return nil, err
	}
	return e.writeAuthority(f, key, nil)
}

func (e *ensurer) writeAuthority(f family, key crypto.Signer, predecessor *x509.Certificate) (*signer, error) {
	certPath := e.path(f.file + ".crt")
	now := e.cfg.Clock.Now()
	encoded, err := selfSign(f.commonName, key, now.Add(-backdate), now.Add(e.cfg.CALife), predecessor)
	if err != nil {
		return nil, fmt.Errorf("pki file %s cannot be made: %w", certPath, err)
	}
	if err := e.write(certPath, encoded); err != nil {
		return nil, err
	}
	certs, err := certutil.ParseCertsPEM(encoded)
	if err != nil {
		return nil, err
	}
	return &signer{cert: certs[0], key: key, certPath: certPath, remedy: f.remedy, bundle: encoded}, nil
}

func loadKey(path, remedy string) (crypto.Signer, error) {
	if !exists(path) {
		return nil, &FileError{path, "is missing", remedy}
	}
	data, err := read(path, true, remedy)
	if err != nil {
		return nil, err
	}
	key, err := parseKey(data)
	if err != nil {
		return nil, &FileError{path, "is corrupt: " + err.Error(), remedy}
	}
	return key, nil
}

func life(cert *x509.Certificate) time.Duration { return cert.NotAfter.Sub(cert.NotBefore) }

func date(t time.Time) string { return t.UTC().Format(time.RFC3339) }
