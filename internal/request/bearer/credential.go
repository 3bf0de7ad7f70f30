package bearer

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"time"

	accessv1alpha1 "proviso.dev/proviso/api/access/v1alpha1"
	"proviso.dev/proviso/internal/engine/narrowedtoken"
	"proviso.dev/proviso/internal/request/requestctx"
)

// asksForToken reports whether a user asks for a narrowed token with this request. Only then the credential is
// inspected and kept. The router ignores slashes at either end of the path.
func asksForToken(r *http.Request) bool {
	path := strings.Trim(r.URL.Path, "/")
	return r.Method == http.MethodPost && strings.HasPrefix(path, "apis/"+accessv1alpha1.GroupName+"/") && strings.HasSuffix(path, "/narrowedtokens")
}

// inspect records when the credential that was just accepted expires, and what it is bound to. If the request has two
// credentials, of which one counted, the earlier expiry is taken.
func inspect(b *requestctx.Bearer, r *http.Request, token string) error {
	b.Inspected = true
	if token != "" {
		claims, _ := claimsOf(token) // nothing is known of an opaque token
		bound, err := claims.bound()
		if err != nil {
			return err
		}
		b.Bound, b.Until = bound, claims.until()
		b.Endless = b.Until.IsZero()
	}
	if r.TLS == nil || len(r.TLS.PeerCertificates) == 0 {
		return nil
	}
	cert := r.TLS.PeerCertificates[0]
	if cert.Subject.CommonName != b.User.GetName() {
		b.Endless = true // a proxy may speak for a user, whose token nobody has verified
		if token == "" {
			return nil
		}
	}
	if b.Until.IsZero() || cert.NotAfter.Before(b.Until) {
		b.Until = cert.NotAfter
	}
	return nil
}

// claims are those of a JWT that matter here.
type claims struct {
	Expires    json.Number `json:"exp"`
	Kubernetes *kubernetes `json:"kubernetes.io"`

	// For legacy tokens that are stored in secrets.
	Namespace string `json:"kubernetes.io/serviceaccount/namespace"`
	Account   string `json:"kubernetes.io/serviceaccount/service-account.name"`
	AccountID string `json:"kubernetes.io/serviceaccount/service-account.uid"`
	Secret    string `json:"kubernetes.io/serviceaccount/secret.name"`
}

type kubernetes struct {
	Namespace      string               `json:"namespace"`
	ServiceAccount narrowedtoken.Object `json:"serviceaccount"`
	Pod            narrowedtoken.Object `json:"pod"`
	Node           narrowedtoken.Object `json:"node"`
	Secret         narrowedtoken.Object `json:"secret"`
	Validating     json.RawMessage      `json:"validatingwebhookconfiguration"`
	Mutating       json.RawMessage      `json:"mutatingwebhookconfiguration"`
}

// claimsOf reads the claims of a JWT that an authenticator has verified already.
func claimsOf(token string) (c claims, ok bool) {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return c, false
	}
	data, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil || json.Unmarshal(data, &c) != nil {
		return claims{}, false
	}
	return c, true
}

func (c claims) until() time.Time {
	seconds, err := c.Expires.Float64()
	if err != nil || seconds <= 0 {
		return time.Time{}
	}
	return time.Unix(int64(seconds), 0)
}

func (c claims) bound() (*narrowedtoken.Bound, error) {
	k := c.Kubernetes
	switch {
	case k == nil && c.Account != "":
		return &narrowedtoken.Bound{Namespace: c.Namespace, ServiceAccount: narrowedtoken.Object{Name: c.Account, UID: c.AccountID}, Secret: narrowedtoken.Object{Name: c.Secret}}, nil
	case k == nil || k.ServiceAccount.Name == "":
		return nil, nil
	case len(k.Validating) > 0 || len(k.Mutating) > 0:
		return nil, errors.New("the token of a webhook cannot be narrowed")
	}
	return &narrowedtoken.Bound{Namespace: k.Namespace, ServiceAccount: k.ServiceAccount, Pod: k.Pod, Node: k.Node, Secret: k.Secret}, nil
}
