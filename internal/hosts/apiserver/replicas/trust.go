package replicas

import (
	"crypto"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"

	certutil "k8s.io/client-go/util/cert"
)

// Trust is what a server accepts as proof of identity, by fingerprint.
type Trust struct {
	// ClientCAs are the authorities of client certificates, with a name to show. Empty if it accepts none.
	ClientCAs map[string]string `json:"clientCAs,omitempty"`
	// SigningKey signs its service account tokens, AcceptedKeys verify tokens. Empty if another server signs.
	SigningKey   string   `json:"signingKey,omitempty"`
	AcceptedKeys []string `json:"acceptedKeys,omitempty"`
}

// clientCAs are the fingerprints of a bundle in PEM form. An authority is its name and its key: a certificate that was
// renewed with the same key is the same authority.
func clientCAs(bundle []byte) (map[string]string, error) {
	certs, err := certutil.ParseCertsPEM(bundle)
	if err != nil {
		return nil, err
	}
	all := map[string]string{}
	for _, cert := range certs {
		sum := sha256.Sum256(slices.Concat(cert.RawSubject, cert.RawSubjectPublicKeyInfo))
		all[hex.EncodeToString(sum[:])] = cert.Subject.String()
	}
	return all, nil
}

// keyFingerprint is the fingerprint of a public key.
func keyFingerprint(key crypto.PublicKey) (string, error) {
	der, err := x509.MarshalPKIXPublicKey(key)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(der)
	return hex.EncodeToString(sum[:]), nil
}

// check says why a server must not start beside the others, or nil. To rotate step by step stays possible: it is enough
// to share one authority with one of them, and to sign with a key that one of them accepts. A server without
// authorities, or whose tokens another server signs, has nothing that could differ.
func (t Trust) check(others []entry) error {
	theirs, keys := map[string]string{}, map[string]bool{}
	var hosts []string
	for _, o := range others {
		maps.Copy(theirs, o.ClientCAs)
		for _, key := range o.AcceptedKeys {
			keys[key] = true
		}
		hosts = append(hosts, o.Host)
	}
	slices.Sort(hosts)
	where := "the other replicas on this etcd (" + strings.Join(slices.Compact(hosts), ", ") + ")"
	shared := func() bool {
		for ca := range t.ClientCAs {
			if _, ok := theirs[ca]; ok {
				return true
			}
		}
		return false
	}
	if len(t.ClientCAs) > 0 && len(theirs) > 0 && !shared() {
		return fmt.Errorf("this replica shares no client CA with %s: it accepts %s, they accept %s, so users who can log in there could not log in here. "+remedy,
			where, named(t.ClientCAs), named(theirs), "CA", "--client-ca-file", secondsToLive)
	}
	if t.SigningKey != "" && len(keys) > 0 && !keys[t.SigningKey] {
		return fmt.Errorf("the service account signing key of this replica (%s) is accepted by none of %s: tokens issued here would not work there. "+remedy,
			short(t.SigningKey), where, "key", "--service-account-key-file", secondsToLive)
	}
	return nil
}

const remedy = "Copy the pki directory of a running replica to this one; to rotate, add the new %s to %s of every replica first. If those replicas are gone, try again in %d s"

func named(cas map[string]string) string {
	var all []string
	for fingerprint, name := range cas {
		all = append(all, fmt.Sprintf("%q (%s)", name, short(fingerprint)))
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
}

func short(fingerprint string) string {
	return "SHA-256 " + fingerprint[:min(16, len(fingerprint))] + "…"
}
