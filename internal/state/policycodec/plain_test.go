package policycodec

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/storage/value"
	"k8s.io/apiserver/pkg/storage/value/encrypt/identity"

	policy "proviso.dev/proviso/api/policy/v1alpha1"
)

// uncached decodes as if nothing had been decoded before.
func uncached() storageCodec {
	return storageCodec{Codec: Codecs.LegacyCodec(GroupVersions()...), memory: newMemory()}
}

// SV-8: what is taken for plain has no part that is not known, whatever is done to the text.
func TestPlain(t *testing.T) {
	whole := current + storedPolicy + `,"lastModified":null,` + goodRoles + `,"status":{}}`
	bound := current + storedBinding + `,"policyRef":{"namespace":"hammer"},` + goodBinds + `}`
	codec := uncached()
	try := func(text string) (decoded, isPlain bool) {
		data := []byte(text)
		if _, _, err := codec.Codec.Decode(data, nil, nil); err != nil {
			return false, false
		}
		of := shapeOf(policy.Kind(map[bool]string{true: "Policy", false: "PolicyBinding"}[strings.Contains(text, `"kind":"Policy"`)]))
		isPlain = plain(data, of)
		if found := of.strangers(data, "", nil); isPlain && len(found) > 0 {
			t.Errorf("%s: %v", text, found)
		}
		return true, isPlain
	}
	for _, text := range []string{whole, bound, strings.ReplaceAll(whole, ",", " ,\n\t"), whole + "\n", current + storedPolicy + `,"roles":{}}`, current + storedPolicy + `,"roles":{"r":{}}}`} {
		if _, isPlain := try(text); !isPlain {
			t.Errorf("not plain: %s", text)
		}
	}
	for _, text := range []string{
		strings.Replace(whole, `"roles"`, `"r\u006fles"`, 1), strings.Replace(whole, `"dev"`, `"guard"`, 1), strings.Replace(whole, `"dev"`, `"gu\u0061rd"`, 1),
		strings.Replace(whole, `"rules"`, `"rules":[],"rules"`, 1), strings.Replace(whole, `"status"`, `"until"`, 1), strings.Replace(whole, `"status"`, `"roles":{},"status"`, 1),
		strings.Replace(whole, `"rules"`, `"until":"]}\"{","rules"`, 1), strings.Replace(bound, `"roleName"`, `"until":1,"roleName"`, 1),
		current + storedPolicy + `,"roles":null}`, current + storedPolicy + `,"roles":{"r":null}}`,
	} {
		if _, isPlain := try(text); isPlain {
			t.Errorf("plain: %s", text)
		}
	}
	r := rand.New(rand.NewPCG(1, 2))
	tokens := []string{`"`, `\"`, `\\`, `{`, `}`, `[`, `]`, `,`, `:`, `null`, `"rules":[]`, `"rules":[],`, `"until":1,`, `"roles":{},`, `"guard":{},`, `"a":"}",`, ` `, `\u0061`, "\x80", `1`}
	decoded, plains := 0, 0
	for range 20_000 {
		text := whole
		if r.IntN(2) == 0 {
			text = bound
		}
		for range 1 + r.IntN(3) {
			at := r.IntN(len(text))
			switch end := min(len(text), at+r.IntN(12)); r.IntN(3) {
			case 0:
				text = text[:at] + text[end:]
			case 1:
				text = text[:at] + tokens[r.IntN(len(tokens))] + text[at:]
			default:
				if quote := strings.IndexByte(text[at:], '"'); quote >= 0 { // in front of a key, mostly
					text = text[:at+quote] + tokens[r.IntN(len(tokens))] + text[at+quote:]
				}
			}
			if text == "" {
				text = "{}"
			}
		}
		ok, isPlain := try(text)
		if ok {
			decoded++
		}
		if isPlain {
			plains++
		}
	}
	if decoded < 500 || plains < 100 || plains == decoded {
		t.Errorf("%d texts could be decoded, and %d were plain: little is proven", decoded, plains)
	}
}

// Plain is what is stored: otherwise nothing is gained.
func TestStoredIsPlain(t *testing.T) {
	p, b := &policy.Policy{}, &policy.PolicyBinding{}
	for _, container := range []runtime.Object{full(8), p, b} {
		data, err := runtime.Encode(StorageCodec(), container)
		if err != nil {
			t.Fatal(err)
		}
		kinds, _, err := Scheme.ObjectKinds(container)
		if err != nil || !plain(data, shapeOf(kinds[0].GroupKind())) {
			t.Errorf("%v %.300s", err, data)
		}
	}
}

// What is remembered is what would be decoded, belongs to whoever gets it, and is forgotten.
func TestRemembered(t *testing.T) {
	codec := uncached()
	strange := strings.Replace(string(encoded(t, full(40))), `"rules"`, `"until":"noon","rules"`, 1)
	for _, text := range []string{string(encoded(t, full(40))), strange} {
		want, kind, err := codec.read([]byte(text), nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		if peeked, err := codec.Peek([]byte(text)); err != nil || cmp.Diff(want, peeked) != "" {
			t.Fatal(err, cmp.Diff(want, peeked))
		}
		for i, into := range []runtime.Object{nil, &policy.Policy{}, &policy.PolicyBinding{}, nil} {
			got, gvk, err := codec.Decode([]byte(text), nil, into)
			if i == 2 { // of another kind: as if nothing were remembered
				if _, _, without := uncached().Decode([]byte(text), nil, &policy.PolicyBinding{}); (err == nil) != (without == nil) {
					t.Errorf("into another kind: %v, without memory %v", err, without)
				}
				continue
			}
			if err != nil || *gvk != *kind || cmp.Diff(want, got) != "" || into != nil && got != into {
				t.Fatalf("%d: %v %v\n%s", i, err, gvk, cmp.Diff(want, got))
			}
			for name := range got.(*policy.Policy).Roles { // it is his
				delete(got.(*policy.Policy).Roles, name)
			}
		}
	}
	if len(codec.memory.known) != 2 {
		t.Errorf("%d are remembered", len(codec.memory.known))
	}
	for i := range 600 {
		large := full(40)
		large.Name = fmt.Sprint(i)
		if _, err := codec.Peek(encoded(t, large)); err != nil {
			t.Fatal(err)
		}
	}
	m := codec.memory
	sum := 0
	for _, one := range m.known {
		sum += len(one.data)
	}
	if m.size > rememberBytes || sum != m.size || len(m.order) != len(m.known) || len(m.known) < 2 {
		t.Errorf("%d bytes are remembered, %d counted, %d and %d objects", sum, m.size, len(m.order), len(m.known))
	}
}

// full is a container with as many conditional rules.
func full(rules int) *policy.Policy {
	p := &policy.Policy{Roles: map[string]policy.PolicyRole{}}
	p.Namespace, p.Name, p.UID = "hammer", "default", "u"
	for i := range rules {
		name := fmt.Sprintf("role%d", i/90)
		role := p.Roles[name]
		role.Rules = append(role.Rules, policy.PolicyRule{Deny: i%2 == 0, Verbs: []string{"create", "update", "delete"}, ResourceKinds: []string{"configmaps", "deployments.apps"},
			Where:       fmt.Sprintf(`resource.metadata.labels["team"] == "t%d" && resource.metadata.name.startsWith("a-rather-long-prefix-%d") && request.user != "somebody"`, i, i),
			Description: "a rule of a delegate who fills his namespace up to its limit"})
		p.Roles[name] = role
	}
	return p
}

func encoded(t testing.TB, o runtime.Object) []byte {
	t.Helper()
	data, err := runtime.Encode(StorageCodec(), o)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// BenchmarkStored is what one large container costs (PO-21): to be decoded for the first time; as before that was made
// cheaper, with a list of what is not known; and to be read from storage, where its key is compared and it is decoded,
// for the first time and again.
func BenchmarkStored(b *testing.B) {
	data := encoded(b, full(720))
	b.Logf("%d bytes", len(data))
	at := value.DefaultContext("/registry/x/hammer/default")
	storage := func(codec storageCodec) recovering {
		return recovering{identity.NewEncryptCheckTransformer(), VersionedScheme(), codec, policy.SchemeGroupVersion.WithKind("Policy"), "/registry/x/"}
	}
	read := func(b *testing.B, codec storageCodec) {
		text, _, err := storage(codec).TransformFromStorage(b.Context(), data, at)
		if err != nil {
			b.Fatal(err)
		}
		if _, _, err := codec.Decode(text, nil, &policy.Policy{}); err != nil {
			b.Fatal(err)
		}
	}
	b.Run("decode", func(b *testing.B) {
		codec := uncached()
		for b.Loop() {
			if _, _, err := codec.read(data, nil, &policy.Policy{}); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("strangers", func(b *testing.B) {
		for b.Loop() {
			if found := shapeOf(policy.Kind("Policy")).strangers(data, "", nil); len(found) > 0 {
				b.Fatal(found)
			}
		}
	})
	b.Run("from storage", func(b *testing.B) {
		for b.Loop() {
			read(b, uncached())
		}
	})
	b.Run("from storage again", func(b *testing.B) {
		codec := uncached()
		for b.Loop() {
			read(b, codec)
		}
	})
}
