package pki

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// SC-20: an authority that names no key usage may sign, as kube-apiserver has it; one that names others may not.
func TestAuthoritiesWithoutKeyUsage(t *testing.T) {
	for name, tc := range map[string]struct {
		usage x509.KeyUsage
		isCA  bool
		ok    bool
	}{
		"no usage": {0, true, true}, "to sign": {x509.KeyUsageCertSign, true, true},
		"another usage": {x509.KeyUsageDigitalSignature, true, false}, "no authority": {0, false, false},
	} {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "a"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
			IsCA: tc.isCA, BasicConstraintsValid: true, KeyUsage: tc.usage}
		// Another one issued it: what issues itself without being an authority is told in other words.
		above := &x509.Certificate{SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "above"}}
		der, err := x509.CreateCertificate(rand.Reader, template, above, key.Public(), key)
		if err != nil {
			t.Fatal(err)
		}
		secret, err := x509.MarshalPKCS8PrivateKey(key)
		if err != nil {
			t.Fatal(err)
		}
		dir := t.TempDir()
		for file, block := range map[string]*pem.Block{"ca.crt": {Type: "CERTIFICATE", Bytes: der}, "ca.key": {Type: "PRIVATE KEY", Bytes: secret}} {
			if err := os.WriteFile(filepath.Join(dir, file), pem.EncodeToMemory(block), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		_, err = loadSigner(filepath.Join(dir, "ca.crt"), filepath.Join(dir, "ca.key"), "")
		if tc.ok && err != nil || !tc.ok && (err == nil || !strings.Contains(err.Error(), "is not the certificate of an authority")) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
