package main

import (
	"crypto/ed25519"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// keyVariable holds the signing key as PEM, where a file would be left behind.
const keyVariable = "RELEASE_KEY"

// payloadType is that of in-toto statements.
const payloadType = "application/vnd.in-toto+json"

// signer reads the private key from a file or, without one, from the environment; nil if there is neither. Only Ed25519
// is taken: its signatures are the same bytes every time, as the rest of a release.
func signer(file string) (ed25519.PrivateKey, error) {
	text, from := []byte(os.Getenv(keyVariable)), keyVariable
	if file != "" {
		var err error
		if text, err = os.ReadFile(file); err != nil {
			return nil, err
		}
		from = file
	}
	if file == "" && len(text) == 0 {
		return nil, nil
	}
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, fmt.Errorf("%s: not a PEM: make a key with `openssl genpkey -algorithm ed25519`", from)
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("%s: not a PKCS#8 private key", from) // what is in it is not said
	}
	key, ok := parsed.(ed25519.PrivateKey)
	if !ok {
		return nil, fmt.Errorf("%s: a key of type %T: make one with `openssl genpkey -algorithm ed25519`", from, parsed)
	}
	return key, nil
}

// sign writes the provenance in a signed envelope, the checksums of everything, their signature, and the public key to
// check it with. Without a key there are only checksums: provenance that nobody has signed says nothing.
func (o *options) sign() error {
	if o.key == nil {
		fmt.Printf("not signed: give -key FILE or %s\n", keyVariable)
		return o.checksums()
	}
	subjects, err := o.subjects()
	if err != nil {
		return err
	}
	statement, err := json.Marshal(o.provenance(subjects))
	if err != nil {
		return err
	}
	signed, err := json.Marshal(envelope{
		PayloadType: payloadType, Payload: base64.StdEncoding.EncodeToString(statement),
		Signatures: []signature{{Sig: base64.StdEncoding.EncodeToString(ed25519.Sign(o.key, preAuthentication(payloadType, statement)))}},
	})
	if err != nil {
		return err
	}
	public, err := publicKey(o.key)
	if err != nil {
		return err
	}
	for name, data := range map[string][]byte{"proviso_" + o.version + ".intoto.jsonl": append(signed, '\n'), "proviso_" + o.version + ".pub": public} {
		if err := os.WriteFile(filepath.Join(o.out, name), data, 0o644); err != nil {
			return err
		}
	}
	if err := o.checksums(); err != nil {
		return err
	}
	sums, err := os.ReadFile(filepath.Join(o.out, sumsName))
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(o.out, sumsName+".sig"), ed25519.Sign(o.key, sums), 0o644)
}

func publicKey(key ed25519.PrivateKey) ([]byte, error) {
	public, ok := key.Public().(ed25519.PublicKey)
	if !ok {
		return nil, errors.New("the key has no public half")
	}
	der, err := x509.MarshalPKIXPublicKey(public)
	if err != nil {
		return nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}), nil
}

// envelope is a DSSE envelope, version 1.
type envelope struct {
	PayloadType string      `json:"payloadType"`
	Payload     string      `json:"payload"`
	Signatures  []signature `json:"signatures"`
}

type signature struct {
	Sig string `json:"sig"`
}

// preAuthentication is what a DSSE envelope signs: the type and the payload, each with its length.
func preAuthentication(kind string, payload []byte) []byte {
	return fmt.Appendf(nil, "DSSEv1 %d %s %d %s", len(kind), kind, len(payload), payload)
}
