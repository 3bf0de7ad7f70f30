package narrowedtoken

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	stdjson "encoding/json"

	accessv1alpha1 "proviso.dev/proviso/api/access/v1alpha1"
	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
)

func testKey(t testing.TB, fill byte) Key {
	t.Helper()
	k, err := NewKey(bytes.Repeat([]byte{fill}, KeySize))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func payload() Payload {
	return Payload{ID: "000102030405060708090a0b0c0d0e0f", Issued: 1750000000, Expires: 1750003600, User: User{Name: "alice", Groups: []string{"dev", "system:authenticated"}}}
}

func allow(verb, kind string, namespaces ...string) accessv1alpha1.TokenRule {
	return accessv1alpha1.TokenRule{PolicyRule: policyv1alpha1.PolicyRule{Verbs: []string{verb}, ResourceKinds: []string{kind}}, Namespaces: namespaces}
}

func made(t testing.TB, key Key, links ...Link) string {
	t.Helper()
	token, err := New(key, payload(), links...)
	if err != nil {
		t.Fatal(err)
	}
	return token
}

// The link of the vectors in docs/reference/narrowed-tokens.md (TK-2). Vectors never change: tokens that were issued
// have to be read.
const vectorLink = `{"rules":[{"namespaces":["web"],"resourceKinds":["pods"],"verbs":["get"]}],"description":"build agent"}`

// TestVectors makes the tokens of the reference (TK-2).
func TestVectors(t *testing.T) {
	key := testKey(t, 7)
	plain := made(t, key)
	once, err := Attenuate(plain, Link{Rules: []accessv1alpha1.TokenRule{allow("get", "pods", "web")}, Description: "build agent"})
	if err != nil {
		t.Fatal(err)
	}
	if together := made(t, key, Link{Rules: []accessv1alpha1.TokenRule{allow("get", "pods", "web")}, Description: "build agent"}); together != once {
		t.Errorf("a link that is appended makes %s, and one from the beginning %s", once, together)
	}
	read, err := Verify(Keys{testKey(t, 1), key}, once)
	if err != nil {
		t.Fatal(err)
	}
	if len(read.Texts) != 1 || read.Texts[0] != vectorLink {
		t.Errorf("link %q, want %q", read.Texts, vectorLink)
	}
	want, err := fixture()
	if err != nil {
		t.Fatal(err)
	}
	if got := plain + "\n" + once + "\n"; got != want {
		t.Errorf("tokens\n%swant\n%s", got, want)
	}
	if !read.Expires().Equal(time.Unix(1750003600, 0)) {
		t.Errorf("it ends at %v", read.Expires())
	}
}

// TestEveryFlipIsRefused flips every bit and cuts at every place, in the text and in the body (TK-2, TK-11).
func TestEveryFlipIsRefused(t *testing.T) {
	key := testKey(t, 7)
	keys := Keys{key}
	token := made(t, key, Link{Rules: []accessv1alpha1.TokenRule{allow("get", "pods", "web")}, Description: "build agent"},
		Link{Rules: []accessv1alpha1.TokenRule{allow("*", "*")}, Expires: 1750000100})
	if _, err := Verify(keys, token); err != nil {
		t.Fatal(err)
	}
	refused := 0
	expect := func(changed, how string) {
		if _, err := Verify(keys, changed); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: %v", how, err)
		}
		refused++
	}
	for i := range len(token) {
		for bit := range 8 {
			changed := []byte(token)
			changed[i] ^= 1 << bit
			expect(string(changed), fmt.Sprintf("bit %d of character %d", bit, i))
		}
		expect(token[:i], fmt.Sprintf("cut at %d", i))
		expect(token[:i]+"\n"+token[i:], fmt.Sprintf("a line break at %d", i))
		expect(token[:i]+token[i+1:], fmt.Sprintf("without character %d", i))
	}
	body, err := encoding.DecodeString(strings.TrimPrefix(token, version+"."))
	if err != nil {
		t.Fatal(err)
	}
	for i := range body {
		for bit := range 8 {
			changed := bytes.Clone(body)
			changed[i] ^= 1 << bit
			expect(version+"."+encoding.EncodeToString(changed), fmt.Sprintf("bit %d of byte %d", bit, i))
		}
		expect(version+"."+encoding.EncodeToString(body[:i]), fmt.Sprintf("body cut at %d", i))
	}
	for _, more := range []string{token + "A", token + ".", token + "=", " " + token, "pvt2." + strings.TrimPrefix(token, "pvt1."), "pvt"} {
		expect(more, more)
	}
	t.Logf("%d changes are refused", refused)
}

// TestLinksStay takes links out and swaps them (TK-2).
func TestLinksStay(t *testing.T) {
	key := testKey(t, 7)
	token := made(t, key, Link{Rules: []accessv1alpha1.TokenRule{allow("get", "pods")}}, Link{Rules: []accessv1alpha1.TokenRule{allow("list", "pods")}}, Link{Rules: []accessv1alpha1.TokenRule{allow("watch", "pods")}})
	whole, err := split(token)
	if err != nil {
		t.Fatal(err)
	}
	for _, order := range [][]int{{}, {0}, {0, 1}, {1, 2}, {0, 2}, {1, 0, 2}, {0, 2, 1}, {2, 1, 0}, {0, 1, 2, 2}} {
		changed := *whole
		changed.links = nil
		for _, i := range order {
			changed.links = append(changed.links, whole.links[i])
		}
		text, err := changed.text()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Verify(Keys{key}, text); !errors.Is(err, ErrInvalid) {
			t.Errorf("links %v: %v", order, err)
		}
	}
	if _, err := Verify(Keys{testKey(t, 8)}, token); !errors.Is(err, ErrInvalid) {
		t.Errorf("another key: %v", err)
	}
}

// TestUnknownIsInvalid refuses what is not known although it is signed (TK-2).
func TestUnknownIsInvalid(t *testing.T) {
	key := testKey(t, 7)
	good, err := stdjson.Marshal(payload())
	if err != nil {
		t.Fatal(err)
	}
	sign := func(payload string, links ...string) string {
		p := parts{keyID: key.id[:], payload: []byte(payload), mac: first(key, []byte(payload))}
		for _, l := range links {
			p.links, p.mac = append(p.links, []byte(l)), next(p.mac, []byte(l))
		}
		text, err := p.text()
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	if _, err := Verify(Keys{key}, sign(string(good), `{"rules":[]}`)); err != nil {
		t.Fatal(err)
	}
	for _, link := range []string{
		`{}`, `{"rules":null}`, `{"Rules":[]}`, `{"rules":[],"rules":[]}`, `{"rules":[],"audience":"x"}`, `{"rules":[]} {}`, `[]`, `null`, ``, `{"rules":[]`,
		`{"rules":[],"exp":-1}`, `{"rules":[],"exp":"1"}`, `{"rules":[],"exp":null}`, `{"rules":[],"description":"a\nb"}`, "{\"rules\":[],\"description\":\"\xff\"}",
		`{"rules":[{"verbs":["get"],"resourceKinds":["pods"],"whre":"true"}]}`,
		`{"rules":[{"verbs":["get"],"resourceKinds":["pods"],"Where":"true"}]}`,
		`{"rules":[{"verbs":["get"],"verbs":["*"],"resourceKinds":["pods"]}]}`,
		`{"rules":[{"verbs":["get"],"resourceKinds":["pods"],"namespaces":[]}]}`,
		`{"rules":[{"verbs":["get"],"resourceKinds":["pods"],"namespaces":["*"]}]}`,
		`{"rules":[{"verbs":["get"],"resourceKinds":["pods"],"enforcement":"Shadow"}]}`,
		`{"rules":[{"verbs":["get"],"resourceKinds":["pods"],"attributeRestrictions":{"other":1}}]}`,
		`{"rules":[{"verbs":["get"],"nonResourceURLs":["/x"],"namespaces":["web"]}]}`,
		`{"rules":[],"description":"` + strings.Repeat("x", MaxDescription+1) + `"}`,
	} {
		if _, err := Verify(Keys{key}, sign(string(good), link)); !errors.Is(err, ErrInvalid) {
			t.Errorf("link %s: %v", link, err)
		}
	}
	for _, p := range []string{
		`{}`, strings.Replace(string(good), `"iat"`, `"IAT"`, 1), strings.Replace(string(good), `"id":"000`, `"id":"00G`, 1),
		strings.Replace(string(good), `"exp":1750003600`, `"exp":1750000000`, 1), strings.Replace(string(good), `{`, `{"new":1,`, 1),
		strings.Replace(string(good), `"name":"alice"`, `"name":""`, 1), strings.Replace(string(good), `"name":"alice"`, `"name":"alice","name":"bob"`, 1),
	} {
		if _, err := Verify(Keys{key}, sign(p)); !errors.Is(err, ErrInvalid) {
			t.Errorf("payload %s: %v", p, err)
		}
	}
}

// TestLimits: 16 links, 16 KiB (TK-2).
func TestLimits(t *testing.T) {
	key := testKey(t, 7)
	token := made(t, key)
	var err error
	for i := range MaxLinks {
		if token, err = Attenuate(token, Link{Rules: []accessv1alpha1.TokenRule{allow("get", "pods")}}); err != nil {
			t.Fatalf("link %d: %v", i+1, err)
		}
	}
	if _, err := Verify(Keys{key}, token); err != nil {
		t.Error(err)
	}
	if _, err := Attenuate(token, Link{Rules: []accessv1alpha1.TokenRule{}}); err == nil || !strings.Contains(err.Error(), "at most 16 links") {
		t.Errorf("link 17: %v", err)
	}
	long := allow("get", "pods")
	long.Where = `resource.metadata.name == "` + strings.Repeat("x", MaxSize) + `"`
	if _, err := Attenuate(made(t, key), Link{Rules: []accessv1alpha1.TokenRule{long}}); err == nil || !strings.Contains(err.Error(), "the limit is 16384") {
		t.Errorf("20 KiB: %v", err)
	}
	if _, err := Verify(Keys{key}, "pvt1."+strings.Repeat("A", MaxSize)); !errors.Is(err, ErrInvalid) {
		t.Errorf("20 KiB: %v", err)
	}
}

// TestKeysKeepSilent never shows a secret (TK-7).
func TestKeysKeepSilent(t *testing.T) {
	key := testKey(t, 'k')
	for _, text := range []string{fmt.Sprint(key), fmt.Sprintf("%v %+v %#v %s", key, key, key, key), fmt.Sprintf("%v", Keys{key})} {
		if strings.Contains(text, "kkkk") || strings.Contains(text, "107") || strings.Contains(text, "6b6b") {
			t.Errorf("%s", text)
		}
	}
	for _, text := range []string{"", "abc", strings.Repeat("A", 40), string(KeyText(make([]byte, 31)))} {
		if _, err := ParseKey([]byte(text)); err == nil || text != "" && strings.Contains(err.Error(), text) {
			t.Errorf("%q: %v", text, err)
		}
	}
	if _, err := ParseKey(KeyText(make([]byte, KeySize))); err != nil {
		t.Error(err)
	}
}

// FuzzVerify never panics, and reads only what was made (TK-11).
func FuzzVerify(f *testing.F) {
	key := testKey(f, 7)
	genuine := made(f, key, Link{Rules: []accessv1alpha1.TokenRule{allow("get", "pods")}})
	f.Add(genuine)
	f.Add("pvt1.")
	f.Add("pvt1." + strings.Repeat("A", 80))
	f.Fuzz(func(t *testing.T, token string) {
		if _, err := Verify(Keys{key}, token); err == nil && token != genuine {
			t.Errorf("%q is taken", token)
		}
		_, _ = Inspect(token)
		if longer, err := Attenuate(token, Link{Rules: []accessv1alpha1.TokenRule{}}); err == nil && token != genuine {
			if _, err := Verify(Keys{key}, longer); err == nil {
				t.Errorf("%q is taken with one more link", token)
			}
		}
	})
}

// BenchmarkVerify verifies 1 KiB (TK-11: at most 20 µs).
func BenchmarkVerify(b *testing.B) {
	key := testKey(b, 7)
	rule := allow("get", "pods", "web")
	rule.Where = `resource.metadata.labels.team == "` + strings.Repeat("a", 400) + `"`
	token := made(b, key, Link{Rules: []accessv1alpha1.TokenRule{rule}, Description: "build agent"})
	b.SetBytes(int64(len(token)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Verify(Keys{key}, token); err != nil {
			b.Fatal(err)
		}
	}
}

func fixture() (string, error) {
	text, err := os.ReadFile("testdata/vectors.txt")
	return string(text), err
}
