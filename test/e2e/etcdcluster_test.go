package e2e

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"proviso.dev/proviso/test/stock"
)

func builtEtcd(t testing.TB) string {
	t.Helper()
	bin, err := stock.Etcd()
	if err != nil {
		t.Fatal(err)
	}
	return bin
}

// etcdCluster is three real members, each in a process of its own, with mutual TLS among them and towards clients.
type etcdCluster struct {
	t             *testing.T
	members       []*member
	ca, cert, key string
}

type member struct {
	*process
	name         string
	args         []string
	client, peer string
}

func startEtcdCluster(t *testing.T) *etcdCluster {
	t.Helper()
	dir := tempDir(t)
	c := &etcdCluster{t: t, ca: filepath.Join(dir, "ca.crt"), cert: filepath.Join(dir, "all.crt"), key: filepath.Join(dir, "all.key")}
	c.certify()
	var initial []string
	for i := range 3 {
		m := &member{name: fmt.Sprintf("e%d", i)}
		m.client, m.peer = fmt.Sprintf("https://127.0.0.1:%d", freePort(t)), fmt.Sprintf("https://127.0.0.1:%d", freePort(t))
		initial = append(initial, m.name+"="+m.peer)
		c.members = append(c.members, m)
	}
	for _, m := range c.members {
		m.args = []string{"--name", m.name, "--data-dir", filepath.Join(dir, m.name),
			"--listen-client-urls", m.client, "--advertise-client-urls", m.client, "--listen-peer-urls", m.peer, "--initial-advertise-peer-urls", m.peer,
			"--initial-cluster", strings.Join(initial, ","), "--client-cert-auth", "--peer-client-cert-auth",
			"--trusted-ca-file", c.ca, "--cert-file", c.cert, "--key-file", c.key,
			"--peer-trusted-ca-file", c.ca, "--peer-cert-file", c.cert, "--peer-key-file", c.key}
		m.process = spawn(t, builtEtcd(t), m.args...)
	}
	for _, m := range c.members {
		m.awaitReady()
	}
	return c
}

func (m *member) awaitReady() {
	m.t.Helper()
	m.await(m.name, func() bool { return strings.Contains(m.output.String(), "ready to serve client requests") })
}

func (c *etcdCluster) restart(m *member) {
	c.t.Helper()
	m.process = spawn(c.t, builtEtcd(c.t), m.args...)
	m.awaitReady()
}

func (c *etcdCluster) flags() []string {
	var urls []string
	for _, m := range c.members {
		urls = append(urls, m.client)
	}
	return []string{"--etcd-servers", strings.Join(urls, ","), "--etcd-cafile", c.ca, "--etcd-certfile", c.cert, "--etcd-keyfile", c.key}
}

// certify makes one CA and one certificate, which members use towards each other and clients towards them.
func (c *etcdCluster) certify() {
	c.t.Helper()
	key := func() *ecdsa.PrivateKey {
		k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			c.t.Fatal(err)
		}
		return k
	}
	caKey, allKey := key(), key()
	ca := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "etcd-ca"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	all := &x509.Certificate{SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "etcd"}, NotBefore: ca.NotBefore, NotAfter: ca.NotAfter,
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}}
	sign := func(path string, template *x509.Certificate, public *ecdsa.PrivateKey) {
		der, err := x509.CreateCertificate(rand.Reader, template, ca, public.Public(), caKey)
		if err != nil {
			c.t.Fatal(err)
		}
		c.write(path, "CERTIFICATE", der)
	}
	sign(c.ca, ca, caKey)
	sign(c.cert, all, allKey)
	der, err := x509.MarshalECPrivateKey(allKey)
	if err != nil {
		c.t.Fatal(err)
	}
	c.write(c.key, "EC PRIVATE KEY", der)
}

func (c *etcdCluster) write(path, kind string, der []byte) {
	c.t.Helper()
	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		c.t.Fatal(err)
	}
}
