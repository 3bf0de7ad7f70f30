package apiserver

import (
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	aggregatorscheme "k8s.io/kube-aggregator/pkg/apiserver/scheme"
	"k8s.io/kubernetes/pkg/api/legacyscheme"

	"proviso.dev/proviso/internal/state/policycodec"
)

// readContent reads an object as the server reads the body of a request, with defaults, and converts it. A custom
// resource is not converted, since that can need a webhook: it has to be sent in the requested version.
func readContent(content *unstructured.Unstructured, to schema.GroupVersion) (runtime.Object, error) {
	kind := content.GroupVersionKind()
	for _, known := range []struct {
		scheme *runtime.Scheme
		codecs serializer.CodecFactory
	}{
		{legacyscheme.Scheme, legacyscheme.Codecs},
		{policycodec.Scheme, policycodec.Codecs},
		{aggregatorscheme.Scheme, aggregatorscheme.Codecs},
	} {
		if !known.scheme.IsGroupRegistered(kind.Group) {
			continue
		}
		body, err := json.Marshal(content.Object)
		if err != nil {
			return nil, err
		}
		object, _, err := known.codecs.UniversalDecoder().Decode(body, nil, nil)
		if err != nil {
			return nil, fmt.Errorf("cannot be read as %s: %w", kind, err)
		}
		return known.scheme.ConvertToVersion(object, to)
	}
	if to != kind.GroupVersion() {
		return nil, fmt.Errorf("is in version %s, and conditions see %s: send it in that version", kind.Version, to)
	}
	return content, nil
}
