package main

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func keyFile(t *testing.T, key any) string {
	t.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "release.key")
	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// signed makes a small release with a key that is made here.
func signed(t *testing.T) (*options, ed25519.PublicKey) {
	t.Helper()
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	o, err := parse([]string{"-root", "../..", "-out", t.TempDir(), "-version", "v1.2.3", "-epoch", "1700000000", "-commit", strings.Repeat("a", 40), "-key", keyFile(t, private), "-platforms", "linux/amd64,darwin/arm64"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := o.archive(platform{"linux", "amd64"}, "proviso", program(t), nil); err != nil {
		t.Fatal(err)
	}
	if err := o.sign(); err != nil {
		t.Fatal(err)
	}
	return o, public
}

func read(t *testing.T, o *options, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(o.out, name))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// OP-1: the provenance names every file with its checksum and the commit, in an envelope of DSSE whose signature holds.
func TestProvenanceIsSigned(t *testing.T) {
	o, public := signed(t)
	var e envelope
	if err := json.Unmarshal(read(t, o, "proviso_v1.2.3.intoto.jsonl"), &e); err != nil {
		t.Fatal(err)
	}
	payload, err := base64.StdEncoding.DecodeString(e.Payload)
	if err != nil || len(e.Signatures) != 1 || e.PayloadType != "application/vnd.in-toto+json" {
		t.Fatalf("%+v %v", e, err)
	}
	sig, err := base64.StdEncoding.DecodeString(e.Signatures[0].Sig)
	if err != nil || !ed25519.Verify(public, append([]byte("DSSEv1 28 application/vnd.in-toto+json "), payloadWithLength(payload)...), sig) {
		t.Errorf("the signature of the envelope does not hold: %v", err)
	}
	var s statement
	if err := json.Unmarshal(payload, &s); err != nil {
		t.Fatal(err)
	}
	def := s.Predicate.BuildDefinition
	if s.Type != "https://in-toto.io/Statement/v1" || s.PredicateType != "https://slsa.dev/provenance/v1" || def.ResolvedDependencies[0].Digest["gitCommit"] != strings.Repeat("a", 40) || def.ExternalParameters["platforms"] != "linux_amd64,darwin_arm64" {
		t.Errorf("%s", payload)
	}
	sum, err := checksum(filepath.Join(o.out, "proviso_v1.2.3_linux_amd64.tar.gz"))
	if err != nil || len(s.Subject) != 1 || s.Subject[0].Digest["sha256"] != sum {
		t.Errorf("%+v %v", s.Subject, err)
	}
}

func payloadWithLength(payload []byte) []byte {
	length, err := json.Marshal(len(payload))
	if err != nil {
		panic(err)
	}
	return slices.Concat(length, []byte(" "), payload)
}

// OP-1: who has the public key checks the checksums with openssl, as the page on installing says; one changed byte of
// an archive or of the checksums is noticed.
func TestChecksumsAreSigned(t *testing.T) {
	o, public := signed(t)
	sums, sig := read(t, o, "SHA256SUMS"), read(t, o, "SHA256SUMS.sig")
	if !ed25519.Verify(public, sums, sig) || ed25519.Verify(public, bytes.Replace(sums, []byte("proviso"), []byte("provis0"), 1), sig) {
		t.Error("the signature does not tell the checksums from others")
	}
	for _, name := range []string{"proviso_v1.2.3_linux_amd64.tar.gz", "proviso_v1.2.3.intoto.jsonl", "proviso_v1.2.3.pub"} {
		if !bytes.Contains(sums, []byte("  "+name+"\n")) {
			t.Errorf("%s is not among the checksums:\n%s", name, sums)
		}
	}
	openssl, err := exec.LookPath("openssl")
	if err != nil {
		t.Skip("openssl is not installed: the signature was checked without it")
	}
	verify := func() error {
		cmd := exec.CommandContext(t.Context(), openssl, "pkeyutl", "-verify", "-pubin", "-inkey", "proviso_v1.2.3.pub", "-rawin", "-in", "SHA256SUMS", "-sigfile", "SHA256SUMS.sig")
		cmd.Dir = o.out
		out, err := cmd.CombinedOutput()
		t.Logf("%s", out)
		return err
	}
	if err := verify(); err != nil {
		t.Error(err)
	}
	if err := os.WriteFile(filepath.Join(o.out, "SHA256SUMS"), append(sums, '\n'), 0o644); err != nil {
		t.Fatal(err)
	}
	if verify() == nil {
		t.Error("openssl takes other checksums")
	}
}

// OP-1: the same key and the same files give the same bytes.
func TestSigningIsReproducible(t *testing.T) {
	o, _ := signed(t)
	first := slices.Concat(read(t, o, "SHA256SUMS.sig"), read(t, o, "proviso_v1.2.3.intoto.jsonl"))
	for _, name := range []string{"SHA256SUMS", "SHA256SUMS.sig", "proviso_v1.2.3.intoto.jsonl", "proviso_v1.2.3.pub"} {
		if err := os.Remove(filepath.Join(o.out, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := o.sign(); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(first, slices.Concat(read(t, o, "SHA256SUMS.sig"), read(t, o, "proviso_v1.2.3.intoto.jsonl"))) {
		t.Error("two runs differ")
	}
}

// OP-1: a key that is none is an error that says how to make one and nothing of what is in the file; without a key
// nothing looks as if it were signed.
func TestKeys(t *testing.T) {
	other, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	secret := filepath.Join(t.TempDir(), "x")
	if err := os.WriteFile(secret, []byte("hunter2"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{secret, keyFile(t, other)} {
		if _, err := signer(file); err == nil || !strings.Contains(err.Error(), "openssl genpkey -algorithm ed25519") || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%v", err)
		}
	}
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	file := keyFile(t, private)
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv(keyVariable, string(text))
	if key, err := signer(""); err != nil || !key.Equal(private) {
		t.Errorf("from the environment: %v", err)
	}
	if _, err := parse([]string{"-version", "v1.2.3"}); err == nil || !strings.Contains(err.Error(), "-commit") {
		t.Errorf("signed without a commit: %v", err)
	}
	t.Setenv(keyVariable, "")
	o := releasing(t)
	if err := o.sign(); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(o.out)
	if err != nil || len(entries) != 1 || entries[0].Name() != "SHA256SUMS" {
		t.Errorf("without a key: %v %v", entries, err)
	}
}
