package crdschema

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/serializer/cbor/direct"
	"k8s.io/apiserver/pkg/features"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	featuregatetesting "k8s.io/component-base/featuregate/testing"
)

// FP-3, SV-13: where the server takes CBOR, a definition in CBOR is a definition like others.
func TestCBOR(t *testing.T) {
	featuregatetesting.SetFeatureGateDuringTest(t, utilfeature.DefaultFeatureGate, features.CBORServingAndStorage, true)
	encode := func(text string) string {
		body, err := direct.Marshal(tree(t, text))
		if err != nil {
			t.Fatal(err)
		}
		return "\xd9\xd9\xf7" + string(body)
	}
	for _, tc := range []struct{ verb, contentType, becomes string }{
		{"create", "application/cbor", "application/json"},
		{"update", "application/cbor", "application/json"},
		{"patch", "application/apply-patch+cbor", "application/apply-patch+yaml"},
	} {
		body := encode(definition(plain))
		if _, sent := (call{verb: tc.verb, contentType: tc.contentType, body: body}).do(t); sent == nil || sent.body != body || sent.contentType != tc.contentType || sent.carried == nil {
			t.Errorf("%s without keys did not go on as it is: %+v", tc.verb, sent)
		}
		_, sent := call{verb: tc.verb, contentType: tc.contentType, body: encode(definition(guarded))}.do(t)
		if sent == nil || sent.contentType != tc.becomes || !strings.Contains(sent.carried.Annotation, "example.com/fire") || strings.Contains(sent.body, `,"`+KeyVerb) {
			t.Errorf("%s with keys: %+v", tc.verb, sent)
		}
	}
	for name, body := range map[string]string{
		"cut off":           encode(definition(guarded))[:100],
		"key written twice": "\xa2\x78\x1cx-kubernetes-permission-verb\x01\x78\x1cx-kubernetes-permission-verb\x02",
		"too deep":          strings.Repeat("\x81", 10000) + "\x01",
		"two values":        encode(definition(plain)) + encode(definition(guarded)),
	} {
		if w, sent := (call{verb: "create", contentType: "application/cbor", body: body}).do(t); sent != nil || w.Code != 400 {
			t.Errorf("%s: %d %+v", name, w.Code, sent)
		}
	}
}
