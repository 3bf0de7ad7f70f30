package apiserver

import (
	apiextensionsapiserver "k8s.io/apiextensions-apiserver/pkg/apiserver"
	aggregatorscheme "k8s.io/kube-aggregator/pkg/apiserver/scheme"
	"k8s.io/kubernetes/pkg/api/legacyscheme"

	"proviso.dev/proviso/internal/apis/policyreview"
	"proviso.dev/proviso/internal/features/feature"
)

// Kinds is what a host that does not link Kubernetes has to know of its kinds.
func Kinds() feature.Kinds {
	return feature.Kinds{
		Schemes: []feature.Scheme{
			{Scheme: legacyscheme.Scheme, Codecs: legacyscheme.Codecs},
			{Scheme: apiextensionsapiserver.Scheme, Codecs: apiextensionsapiserver.Codecs},
			{Scheme: aggregatorscheme.Scheme, Codecs: aggregatorscheme.Codecs},
		},
		Builtin: builtin{}, Reserved: builtinGroups(), Converter: policyreview.ConverterFunc(readContent), Definitions: allDefinitions, Codecs: legacyscheme.Codecs,
	}
}
