package explorer

import (
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"time"
)

const (
	// keyHeader carries the key. A page of another origin cannot send it, nor read it.
	keyHeader = "X-Proviso-Key"
	// sessionLife is how long a page can be used after its token was.
	sessionLife = 12 * time.Hour
)

// guard only lets in the browser that has used the token (EX-1).
//
// A cookie alone would not do: browsers send it to every port of 127.0.0.1, so a program of another user on this
// machine could get it. The key reaches the page in the fragment of the address, which is sent to nobody, and is kept
// where only pages of this very port find it. A request needs both.
type guard struct {
	// now is the clock.
	now func() time.Time

	mu    sync.Mutex
	token string
	// cookieName distinguishes explorers on one machine.
	cookieName  string
	cookie, key string
	until       time.Time
}

func newGuard(now func() time.Time) *guard {
	return &guard{now: now, token: secret(), cookieName: "proviso-explorer-" + secret()[:8]}
}

// secret is 256 random bits.
func secret() string {
	var b [32]byte
	_, _ = rand.Read(b[:]) // it never fails
	return base64.RawURLEncoding.EncodeToString(b[:])
}

// enter turns the token into a session. It works once.
func (g *guard) enter(w http.ResponseWriter, token string) (key string, ok bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.token == "" || !same(token, g.token) {
		return "", false
	}
	g.token, g.cookie, g.key, g.until = "", secret(), secret(), g.now().Add(sessionLife)
	//nolint:gosec // not Secure: there is no TLS between a browser and a program on the same machine
	http.SetCookie(w, &http.Cookie{Name: g.cookieName, Value: g.cookie, Path: "/", HttpOnly: true, SameSite: http.SameSiteStrictMode, MaxAge: int(sessionLife.Seconds())})
	return g.key, true
}

// admits reports whether a request belongs to the session.
func (g *guard) admits(r *http.Request) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	cookie, err := r.Cookie(g.cookieName)
	return err == nil && g.cookie != "" && g.now().Before(g.until) && same(cookie.Value, g.cookie) && same(r.Header.Get(keyHeader), g.key)
}

func same(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }

// policy allows the page only to run its own scripts and to call this server.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// local refuses what does not come from a browser on this machine that has this address in its bar: a name that
// that were pointed to 127.0.0.1, and pages of others.
func local(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("X-Frame-Options", "DENY")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cache-Control", "no-store")
		switch {
		case !isLoopback(r.Host):
			http.Error(w, "This page answers at 127.0.0.1 and localhost only.", http.StatusMisdirectedRequest)
		case !ownOrigin(r):
			http.Error(w, "Pages of other origins cannot use the explorer.", http.StatusForbidden)
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// isLoopback reports whether a Host is this machine by its number or by localhost. The port may be another: ssh can
// forward one.
func isLoopback(host string) bool {
	name := host
	if h, _, err := net.SplitHostPort(host); err == nil {
		name = h
	}
	if strings.EqualFold(name, "localhost") {
		return true
	}
	addr, err := netip.ParseAddr(strings.Trim(name, "[]"))
	return err == nil && addr.IsLoopback()
}

// ownOrigin reports whether a request comes from this page, or from the address bar. A request that changes or asks
// anything must say where it comes from.
func ownOrigin(r *http.Request) bool {
	origin, site := r.Header.Get("Origin"), r.Header.Get("Sec-Fetch-Site")
	if origin != "" {
		return origin == "http://"+r.Host && (site == "" || site == "same-origin")
	}
	if r.Method == http.MethodGet || r.Method == http.MethodHead {
		// A link from elsewhere may open the page, which then asks for itself; nothing else of it may be loaded there.
		return site == "" || site == "same-origin" || site == "none" || r.Header.Get("Sec-Fetch-Mode") == "navigate"
	}
	return false
}
