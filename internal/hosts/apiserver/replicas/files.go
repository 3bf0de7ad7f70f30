package replicas

import (
	"crypto"
	"fmt"
	"os"

	"k8s.io/client-go/util/keyutil"
)

// Files are the flags that say what a server trusts.
type Files struct {
	// ClientCA is --client-ca-file, which may change while the server runs.
	ClientCA string
	// SigningKey and AcceptedKeys are those of service account tokens. SigningKey is empty if another server signs, and
	// says which keys are good.
	SigningKey   string
	AcceptedKeys []string
}

// Trust reads the keys of tokens once, as upstream does, and returns what reads the rest each time.
func (f Files) Trust() (func() (Trust, error), error) {
	keys, err := f.tokenKeys()
	if err != nil {
		return nil, err
	}
	return func() (Trust, error) {
		trust := keys
		if f.ClientCA == "" {
			return trust, nil
		}
		bundle, err := os.ReadFile(f.ClientCA)
		if err != nil {
			return trust, fmt.Errorf("--client-ca-file: %w", err)
		}
		if trust.ClientCAs, err = clientCAs(bundle); err != nil {
			return trust, fmt.Errorf("--client-ca-file=%s: %w", f.ClientCA, err)
		}
		return trust, nil
	}, nil
}

func (f Files) tokenKeys() (Trust, error) {
	var trust Trust
	if f.SigningKey == "" {
		return trust, nil
	}
	private, err := keyutil.PrivateKeyFromFile(f.SigningKey)
	if err != nil {
		return trust, fmt.Errorf("--service-account-signing-key-file: %w", err)
	}
	signer, ok := private.(crypto.Signer)
	if !ok {
		return trust, fmt.Errorf("--service-account-signing-key-file=%s: a %T cannot sign", f.SigningKey, private)
	}
	if trust.SigningKey, err = keyFingerprint(signer.Public()); err != nil {
		return trust, fmt.Errorf("--service-account-signing-key-file: %w", err)
	}
	for _, file := range f.AcceptedKeys {
		public, err := keyutil.PublicKeysFromFile(file)
		if err != nil {
			return trust, fmt.Errorf("--service-account-key-file: %w", err)
		}
		for _, key := range public {
			fingerprint, err := keyFingerprint(key)
			if err != nil {
				return trust, fmt.Errorf("--service-account-key-file: %w", err)
			}
			trust.AcceptedKeys = append(trust.AcceptedKeys, fingerprint)
		}
	}
	return trust, nil
}
