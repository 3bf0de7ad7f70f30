package pki

import (
	"crypto"
	"crypto/x509"
	"encoding/pem"
	"fmt"

	"k8s.io/client-go/util/keyutil"
)

// serviceAccountKeys keeps the key that signs service account tokens and the list of those that verify them. The list
// may hold older keys, which keeps tokens signed by those valid.
func (e *ensurer) serviceAccountKeys() error {
	path, pub := e.files.SAKey, e.files.SAPub
	remedy := "restore it, or remove " + path + " and " + pub + " to have both generated again (tokens signed so far stop working)"
	if !exists(path) {
		if exists(pub) {
			return &FileError{path, "is missing although " + pub + " exists", remedy}
		}
		_, encoded, err := newKey()
		if err != nil {
			return err
		}
		if err := e.write(path, encoded); err != nil {
			return err
		}
	}
	key, err := loadKey(path, remedy)
	if err != nil {
		return err
	}
	if !exists(pub) {
		der, err := x509.MarshalPKIXPublicKey(key.Public())
		if err != nil {
			return fmt.Errorf("pki file %s cannot be made: %w", pub, err)
		}
		return e.write(pub, pem.EncodeToMemory(&pem.Block{Type: keyutil.PublicKeyBlockType, Bytes: der}))
	}
	data, err := read(pub, false, remedyLeaf)
	if err != nil {
		return err
	}
	keys, err := keyutil.ParsePublicKeysPEM(data)
	if err != nil {
		return &FileError{pub, "is corrupt: " + err.Error(), remedyLeaf}
	}
	for _, known := range keys {
		if samePublic(key.Public(), crypto.PublicKey(known)) {
			return nil
		}
	}
	return &FileError{pub, "does not hold the public key of " + path, "restore it, add the key to it, or remove it to have it generated again"}
}
