package pki

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"slices"
	"time"

	certutil "k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"
)

// subject is what a leaf certificate says about its owner.
type subject struct {
	name   string
	groups []string
	usages []x509.ExtKeyUsage
	hosts  []string
	ips    []net.IP
}

var (
	clientOnly   = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	serverOnly   = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	clientServer = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
)

func newKey() (crypto.Signer, []byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	encoded, err := keyutil.MarshalPrivateKeyToPEM(key)
	return key, encoded, err
}

func serial() (*big.Int, error) {
	// 128 random bits; zero is not a valid serial number.
	n, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 128))
	if err != nil {
		return nil, err
	}
	return n.Add(n, big.NewInt(1)), nil
}

// selfSign makes the certificate of an authority. With a predecessor it keeps that one's identity (name and key
// identifier), so that what the predecessor signed stays valid.
func selfSign(name string, key crypto.Signer, notBefore, notAfter time.Time, predecessor *x509.Certificate) ([]byte, error) {
	number, err := serial()
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber: number, Subject: pkix.Name{CommonName: name}, NotBefore: notBefore, NotAfter: notAfter,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign | x509.KeyUsageDigitalSignature,
		IsCA:     true, BasicConstraintsValid: true,
	}
	if predecessor != nil {
		template.RawSubject, template.SubjectKeyId = predecessor.RawSubject, predecessor.SubjectKeyId
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	return encodeCert(der), nil
}

// sign makes a leaf; it never outlives the authority, since clients would reject it from then on anyway.
func (a *signer) sign(s subject, public crypto.PublicKey, now time.Time, life time.Duration) ([]byte, error) {
	number, err := serial()
	if err != nil {
		return nil, err
	}
	notBefore, notAfter := now.Add(-backdate), now.Add(life)
	if notBefore.Before(a.cert.NotBefore) {
		notBefore = a.cert.NotBefore
	}
	if notAfter.After(a.cert.NotAfter) {
		notAfter = a.cert.NotAfter
	}
	template := &x509.Certificate{
		SerialNumber: number, Subject: pkix.Name{CommonName: s.name, Organization: s.groups},
		NotBefore: notBefore, NotAfter: notAfter,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: s.usages, BasicConstraintsValid: true,
		DNSNames: s.hosts, IPAddresses: s.ips,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, public, a.key)
	if err != nil {
		return nil, err
	}
	return encodeCert(der), nil
}

func encodeCert(der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: certutil.CertificateBlockType, Bytes: der})
}

// covers reports whether a certificate says everything a subject needs; it may say more.
func (s subject) covers(cert *x509.Certificate) bool {
	if cert.Subject.CommonName != s.name {
		return false
	}
	for _, group := range s.groups {
		if !slices.Contains(cert.Subject.Organization, group) {
			return false
		}
	}
	for _, usage := range s.usages {
		if !slices.Contains(cert.ExtKeyUsage, usage) {
			return false
		}
	}
	for _, host := range s.hosts {
		if !slices.Contains(cert.DNSNames, host) {
			return false
		}
	}
	for _, ip := range s.ips {
		if !slices.ContainsFunc(cert.IPAddresses, ip.Equal) {
			return false
		}
	}
	return true
}

// parseKey accepts every kind of private key that upstream does.
func parseKey(data []byte) (crypto.Signer, error) {
	parsed, err := keyutil.ParsePrivateKeyPEM(data)
	if err != nil {
		return nil, err
	}
	key, ok := parsed.(crypto.Signer)
	if !ok {
		return nil, fmt.Errorf("a %T cannot sign", parsed)
	}
	return key, nil
}

func samePublic(a, b crypto.PublicKey) bool {
	comparable, ok := a.(interface{ Equal(crypto.PublicKey) bool })
	return ok && comparable.Equal(b)
}
