package pki

import (
	"crypto/x509"
	"fmt"
	"path/filepath"
	"time"

	certutil "k8s.io/client-go/util/cert"
)

// Ensure creates what is missing under dataDir, renews what is about to expire or no longer covers the configuration,
// and reuses everything else. The caller holds the directory's lock. An error leaves the files usable: repeating the
// call after the cause is removed continues where it stopped.
func Ensure(dataDir string, cfg Config) (*Files, error) {
	cfg, err := cfg.complete()
	if err != nil {
		return nil, err
	}
	e := &ensurer{dir: dataDir, cfg: cfg, files: layout(dataDir)}
	for _, dir := range []string{e.path("."), e.path("etcd")} {
		if err := privateDir(dir); err != nil {
			return nil, err
		}
	}
	if err := sweep(dataDir); err != nil {
		return nil, err
	}
	for _, family := range e.families() {
		ca, err := e.authority(family)
		if err != nil {
			return nil, err
		}
		for _, l := range family.leaves {
			if err := e.leaf(ca, l); err != nil {
				return nil, err
			}
		}
		if family.file == "ca" {
			if err := e.adminKubeconfig(ca); err != nil {
				return nil, err
			}
		}
	}
	if err := e.serviceAccountKeys(); err != nil {
		return nil, err
	}
	return e.files, nil
}

type ensurer struct {
	dir   string
	cfg   Config
	files *Files
}

func (e *ensurer) path(name string) string {
	return filepath.Join(e.dir, "pki", filepath.FromSlash(name))
}

// leaf keeps one key and certificate. A renewal keeps the key: one file changes, so no crash can separate the two, and
// servers that reload both files never see a pair that does not fit.
func (e *ensurer) leaf(ca *signer, l leaf) error {
	certPath, keyPath := e.path(l.file+".crt"), e.path(l.file+".key")
	now := e.cfg.Clock.Now()
	if !exists(keyPath) {
		if exists(certPath) {
			return &FileError{keyPath, "is missing although " + certPath + " exists",
				"restore it, or remove the certificate too to have both generated again"}
		}
		_, encoded, err := newKey()
		if err != nil {
			return err
		}
		if err := e.write(keyPath, encoded); err != nil {
			return err
		}
	}
	remedyPair := "restore it, or remove " + keyPath + " and " + certPath + " to have both generated again"
	key, err := loadKey(keyPath, remedyPair)
	if err != nil {
		return err
	}
	if exists(certPath) {
		data, err := read(certPath, false, remedyLeaf)
		if err != nil {
			return err
		}
		certs, err := certutil.ParseCertsPEM(data)
		if err != nil {
			return &FileError{certPath, "is corrupt: " + err.Error(), remedyLeaf}
		}
		if !samePublic(certs[0].PublicKey, key.Public()) {
			return &FileError{keyPath, "does not fit " + certPath, remedyPair}
		}
		if err := certs[0].CheckSignatureFrom(ca.cert); err != nil {
			return &FileError{certPath, "is not signed by " + ca.certPath, remedyLeaf}
		}
		if l.covers(certs[0]) && !due(certs[0], ca.cert, now) {
			return nil
		}
	}
	encoded, err := ca.sign(l.subject, key.Public(), now, e.cfg.LeafLife)
	if err != nil {
		return fmt.Errorf("pki file %s cannot be made: %w", certPath, err)
	}
	return e.write(certPath, encoded)
}

// due reports whether a leaf must be replaced now. One that already lasts as long as its authority is not: a new one
// could not last longer, and renewing it would never end.
func due(cert, ca *x509.Certificate, now time.Time) bool {
	if now.Before(cert.NotBefore) {
		return true
	}
	return cert.NotAfter.Sub(now) <= notice(cert) && cert.NotAfter.Before(ca.NotAfter)
}

func notice(cert *x509.Certificate) time.Duration { return min(longestNotice, life(cert)/3) }
