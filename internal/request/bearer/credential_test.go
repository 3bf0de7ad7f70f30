package bearer

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/request/bearertoken"
	"k8s.io/apiserver/pkg/authentication/request/union"
	"k8s.io/apiserver/pkg/authentication/request/websocket"
	"k8s.io/apiserver/pkg/authentication/user"

	"proviso.dev/proviso/internal/request/requestctx"
	"proviso.dev/proviso/internal/state/snapshot"
)

const (
	asking = "/apis/access.proviso.dev/v1alpha1/narrowedtokens"
	robot  = "system:serviceaccount:hammer:robot"
)

// tokenOf is a JWT of a service account in a pod. Nobody checks its signature here.
func tokenOf(expires int64) string {
	claims := fmt.Sprintf(`{"exp":%d,"kubernetes.io":{"namespace":"hammer","serviceaccount":{"name":"robot","uid":"u"},"pod":{"name":"p","uid":"v"}}}`, expires)
	return "e30." + base64.RawURLEncoding.EncodeToString([]byte(claims)) + ".c2ln"
}

// upstream accepts one token, in the header and of web sockets, as kube-apiserver does.
func upstream(good string) authenticator.Request {
	token := authenticator.TokenFunc(func(_ context.Context, text string) (*authenticator.Response, bool, error) {
		return &authenticator.Response{User: &user.DefaultInfo{Name: robot}}, text == good, nil
	})
	return union.New(bearertoken.New(token), websocket.NewProtocolAuthenticator(token))
}

func ask(t *testing.T, path, good string, change func(*http.Request)) (*requestctx.Bearer, bool) {
	t.Helper()
	r := httptest.NewRequest(http.MethodPost, path, nil)
	r = r.WithContext(requestctx.With(r.Context(), &snapshot.Snapshot{}))
	change(r)
	_, ok, err := New(Config{Next: upstream(good)}).AuthenticateRequest(r)
	return requestctx.BearerOf(r.Context()), ok && err == nil
}

func socket(r *http.Request, token string) {
	r.Header.Set("Connection", "Upgrade")
	r.Header.Set("Upgrade", "websocket")
	r.Header.Set("Sec-WebSocket-Protocol", "v4.channel.k8s.io, "+protocolPrefix+base64.RawURLEncoding.EncodeToString([]byte(token)))
}

func header(r *http.Request, token string) { r.Header.Set("Authorization", "Bearer "+token) }

// TK-3: a narrowed token is bound to what the credential is bound to, however the credential was sent and the path is
// written.
func TestBoundHoweverItWasSent(t *testing.T) {
	expires := time.Now().Add(time.Minute).Unix()
	token := tokenOf(expires)
	for name, send := range map[string]func(*http.Request, string){"header": header, "web socket": socket} {
		for _, path := range []string{asking, asking + "/", asking + "//", "/" + asking} {
			b, ok := ask(t, path, token, func(r *http.Request) { send(r, token) })
			if !ok || b == nil || !b.Inspected || b.Bound == nil || b.Bound.Pod.Name != "p" || b.Until.Unix() != expires || b.Endless {
				t.Errorf("by %s to %s: %v, %+v", name, path, ok, b)
			}
		}
		if b, ok := ask(t, "/api/v1/pods", token, func(r *http.Request) { send(r, token) }); !ok || b.Inspected || b.Bound != nil {
			t.Errorf("by %s, which asks for no token: %v, %+v", name, ok, b)
		}
	}
}

// TK-3: of two credentials, it is not known which one counted.
func TestTwoCredentials(t *testing.T) {
	good, forged := tokenOf(time.Now().Add(time.Minute).Unix()), "e30.e30.c2ln"
	for name, send := range map[string]func(*http.Request){
		"forged in the header":     func(r *http.Request) { header(r, forged); socket(r, good) },
		"forged by the web socket": func(r *http.Request) { socket(r, forged); header(r, good) },
		"the same":                 func(r *http.Request) { socket(r, good); header(r, good) },
	} {
		if b, ok := ask(t, asking, good, send); ok || b != nil {
			t.Errorf("%s: %+v", name, b)
		}
	}
	end := time.Unix(time.Now().Add(time.Hour).Unix(), 0)
	for name, c := range map[string]struct {
		common  string
		endless bool
	}{"of the user": {robot, false}, "of a proxy": {"proxy", true}} {
		good := tokenOf(end.Unix())
		b, ok := ask(t, asking, good, func(r *http.Request) {
			header(r, good)
			r.TLS = &tls.ConnectionState{PeerCertificates: []*x509.Certificate{{Subject: pkix.Name{CommonName: c.common}, NotAfter: end.Add(time.Hour)}}}
		})
		if !ok || !b.Until.Equal(end) || b.Endless != c.endless {
			t.Errorf("a certificate %s: %v, %+v", name, ok, b)
		}
	}
	soon := time.Now().Add(time.Minute)
	for name, token := range map[string]string{"opaque": "abc", "without an end": "e30.e30.c2ln"} {
		b, ok := ask(t, asking, token, func(r *http.Request) {
			header(r, token)
			r.TLS = &tls.ConnectionState{PeerCertificates: []*x509.Certificate{{Subject: pkix.Name{CommonName: robot}, NotAfter: soon}}}
		})
		if !ok || !b.Until.Equal(soon) || !b.Endless {
			t.Errorf("a certificate beside a token that is %s: %v, %+v", name, ok, b)
		}
	}
}
