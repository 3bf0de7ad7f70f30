package browser

import (
	"fmt"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// screens are all of them, with something on each.
func screens(t *testing.T) []string {
	return []string{"/who-can?verb=update&resource=deployments.apps&namespace=hammer", "/why?verb=update&resource=deployments.apps&name=cart&namespace=hammer&subject=anna&object=stored",
		"/matrix?namespaces=hammer", "/plan?" + url.Values{"yaml": {change(t)}}.Encode(), "/audit", "/playground", "/shadow"}
}

// EX-4: the keyboard is enough, and everything has a name.
func forEveryone(t *testing.T, _ *cluster, b *tab) {
	for _, path := range screens(t) {
		b.run(chromedp.Navigate(b.base + path))
		b.wait(`document.querySelector('main h1')`)
		var nameless []string
		b.eval(`[...document.querySelectorAll('input, select, textarea, button, a, table')].filter((e) => !(e.labels?.[0]?.innerText || e.ariaLabel || e.innerText || e.caption?.textContent || "").trim()).map((e) => e.outerHTML.slice(0, 120))`, &nameless)
		if len(nameless) > 0 {
			t.Errorf("%s: without a name: %q", path, nameless)
		}
		if h := b.text(`document.querySelectorAll('h1').length + " " + document.title`); !strings.HasPrefix(h, "1 ") || !strings.Contains(h, "Proviso explorer") {
			t.Errorf("%s: headings and title %s", path, h)
		}
	}
	b.open("/who-can?verb=get&resource=pods&namespace=hammer")
	b.run(chromedp.KeyEvent(kb.Tab))
	if got := b.text("document.activeElement.innerText"); got != "Skip to the answer" {
		t.Errorf("the first stop of the keyboard is %q", got)
	}
	for range 40 {
		if b.text("document.activeElement.labels?.[0]?.innerText") == "Verb" {
			break
		}
		b.run(chromedp.KeyEvent(kb.Tab))
	}
	if b.text("document.activeElement.labels?.[0]?.innerText") != "Verb" {
		t.Fatal("the keyboard does not reach the question")
	}
	b.eval("document.activeElement.select()", nil)
	b.run(chromedp.KeyEvent("delete"), chromedp.KeyEvent(kb.Enter))
	b.wait(`location.search.includes("verb=delete") && document.querySelector('.terminal code')?.innerText.includes("delete")`)
}

// contrast is the least contrast of texts with what is behind them (WCAG), of those that have a background of their own
// or are dim.
const contrast = `(() => { const parse = (c) => { const e = document.createElement("canvas").getContext("2d"); e.fillStyle = c; e.fillRect(0, 0, 1, 1); return [...e.getImageData(0, 0, 1, 1).data]; };
	const light = (c) => { const [r, g, b] = c.map((v) => { v /= 255; return v <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4; }); return .2126 * r + .7152 * g + .0722 * b; };
	const behind = (e) => { for (; e; e = e.parentElement) { const c = parse(getComputedStyle(e).backgroundColor); if (c[3] > 200) return c; } return [255, 255, 255, 255]; };
	let worst = [99, ""];
	for (const e of document.querySelectorAll(".state, .dim, .lead, .hint, label, button.primary, button.quiet, nav a, .chip .name, .count, .flag, .terminal code")) {
		if (!e.getClientRects().length || e.closest(".skipped")) continue;
		const a = light(parse(getComputedStyle(e).color).slice(0, 3)), b = light(behind(e).slice(0, 3)), ratio = (Math.max(a, b) + .05) / (Math.min(a, b) + .05);
		if (ratio < worst[0]) worst = [ratio, e.className + ": " + e.innerText.slice(0, 30)];
	}
	return worst; })()`

// EX-4: nothing is cut off in narrow windows, and everything can be read in the dark.
func windows(t *testing.T, _ *cluster, b *tab) {
	for _, colours := range []string{"light", "dark"} {
		for _, width := range []int64{1280, 600} {
			b.size(width, colours)
			for _, path := range screens(t) {
				b.run(chromedp.Navigate(b.base + path))
				b.wait(`document.querySelector('[data-ready="true"], .trouble, .empty')`)
				if got := b.text("document.documentElement.scrollWidth"); got > fmt.Sprint(width) || len(got) > len(fmt.Sprint(width)) {
					t.Errorf("%s is %s wide in a window of %d", path, got, width)
				}
				b.look(fmt.Sprintf("%s-%d-%s", strings.SplitN(path[1:], "?", 2)[0], width, colours), width)
				if width != 1280 {
					continue
				}
				var worst []any
				b.eval(contrast, &worst)
				if ratio, _ := worst[0].(float64); ratio < 4.5 {
					t.Errorf("%s, %s: contrast %.2f of %v", path, colours, ratio, worst[1])
				}
			}
		}
	}
	b.size(1280, "light")
}

// EX-5: the pictures of the guide.
func pictures(_ *testing.T, _ *cluster, b *tab) {
	if os.Getenv("PROVISO_SHOTS") == "" {
		return
	}
	all := screens(b.t)
	for i, p := range []struct {
		name, colours string
		height        int64
	}{{"who-can", "light", 1050}, {"why", "light", 1160}, {"matrix", "light", 1000}, {"plan", "light", 1000}, {"audit", "dark", 620}, {"playground", "light", 1080}, {"shadow", "dark", 620}} {
		b.size(1280, p.colours)
		b.run(chromedp.Navigate(b.base + all[i]))
		b.wait(`document.querySelector('[data-ready="true"], .empty, .trouble')`)
		if p.name == "audit" {
			time.Sleep(3 * time.Second) // some events
		}
		b.shoot("explorer-"+p.name, 1280, p.height)
	}
	b.size(600, "dark")
	b.open(all[0])
	b.shoot("explorer-narrow", 600, 1000)
	b.size(1280, "light")
}

// EX-1: a change is applied, as the user, after its plan was shown.
func apply(t *testing.T, c *cluster, b *tab) {
	b.open("/plan?" + url.Values{"yaml": {change(t)}}.Encode())
	b.eval(`[...document.querySelectorAll('button')].find((e) => e.innerText === "Apply this").click()`, nil)
	b.wait(`document.querySelector('.done')`)
	if out := c.must(c.admin, "", "kubectl", "get", "rolebinding.rbac.authorization.k8s.io", "readers", "-n", "hammer", "-o", "yaml"); !strings.Contains(out, "edna") {
		t.Errorf("not applied: %s", out)
	}
}

// EX-1, EX-5: the address works once, and nobody has a session without it.
func strangers(t *testing.T, address string) {
	b := newTab(t, address)
	b.run(chromedp.Navigate(address))
	b.wait(`document.body.innerText.includes("This address was used already")`)
	b.run(chromedp.Navigate(b.base + "/who-can?verb=get&resource=pods"))
	b.wait(`document.querySelector('.trouble')?.innerText.includes("No session")`)
	if b.text(`document.querySelectorAll('.card').length`) != "0" {
		t.Error("a stranger sees something")
	}
	b.quiet()
}

// EX-5: who has no rights sees that, and his own rights.
func withoutRights(t *testing.T, c *cluster) {
	c.t = t
	address := c.explorer(c.user("nobody"))
	b := newTab(t, address)
	b.run(chromedp.Navigate(address))
	b.wait(`document.querySelector('.trouble')?.innerText.includes("forbidden")`)
	b.open("/matrix?namespaces=hammer")
	b.wait(`document.body.innerText.includes("These are your own rights") && document.querySelector('.grid')`)
	b.open("/why?verb=delete&resource=pods&namespace=hammer")
	if got := b.text(`document.querySelector('.verdict')?.dataset.decision`); got != "NoOpinion" {
		t.Errorf("his own question: %s", got)
	}
	b.open("/plan?" + url.Values{"yaml": {change(t)}}.Encode())
	b.wait(`document.querySelector('.trouble')?.innerText.includes("you may not list")`)
	b.open("/audit")
	b.wait(`document.querySelector('.trouble')`)
	b.quiet()
}

// EX-5: a server that goes away is said to, and the page goes on when it is back.
func gone(_ *testing.T, c *cluster, b *tab) {
	b.open("/who-can?verb=get&resource=pods&namespace=hammer")
	c.stop()
	b.eval(`document.querySelector('form button.primary').click()`, nil)
	b.wait(`document.querySelector('.trouble')?.innerText.includes("The server does not answer")`)
	b.run(chromedp.Navigate(b.base + "/why"))
	b.wait(`document.querySelector('.trouble button')`)
}
