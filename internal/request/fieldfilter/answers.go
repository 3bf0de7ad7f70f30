package fieldfilter

import (
	"bytes"
	"errors"
	"fmt"
	"mime"
	"reflect"

	"k8s.io/apimachinery/pkg/api/meta"
	metainternalscheme "k8s.io/apimachinery/pkg/apis/meta/internalversion/scheme"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/cbor"
	"k8s.io/apimachinery/pkg/runtime/serializer/json"

	"proviso.dev/proviso/internal/engine/hiddenfield"
)

var errForm = errors.New("the response is in a form that is not known")

// serializerFor finds the serializer of a content type.
func serializerFor(codecs runtime.NegotiatedSerializer, contentType string) (runtime.SerializerInfo, bool) {
	media, _, err := mime.ParseMediaType(contentType)
	if err != nil {
		return runtime.SerializerInfo{}, false
	}
	return runtime.SerializerInfoForMediaType(codecs.SupportedMediaTypes(), media)
}

// form reads and writes responses.
type form interface {
	runtime.Decoder
	runtime.Encoder
}

// formsOf returns the forms that a response may have: that of the resource, and that of metadata alone.
func (s *sight) formsOf(contentType string) ([]form, error) {
	if by := s.filters.schemeOf(resourceOf(s.attrs)); by != nil {
		var all []form
		for _, codecs := range []runtime.NegotiatedSerializer{by.codecs, metainternalscheme.Codecs} {
			if info, ok := serializerFor(codecs, contentType); ok {
				all = append(all, info.Serializer)
			}
		}
		return all, nil
	}
	media, _, err := mime.ParseMediaType(contentType)
	if err != nil {
		return nil, err
	}
	typer := unstructuredTyper{}
	switch media {
	case runtime.ContentTypeJSON:
		return []form{unstructured.UnstructuredJSONScheme}, nil
	case runtime.ContentTypeYAML:
		return []form{json.NewSerializerWithOptions(json.DefaultMetaFactory, unstructuredCreater{}, typer, json.SerializerOptions{Yaml: true})}, nil
	case runtime.ContentTypeCBOR:
		return []form{cbor.NewSerializer(unstructuredCreater{}, typer)}, nil
	}
	return nil, errForm
}

// showAnswer reduces a response to a write to what the caller sees.
func (s *sight) showAnswer(contentType string, body []byte) ([]byte, error) {
	if len(bytes.TrimSpace(body)) == 0 {
		return body, nil
	}
	forms, err := s.formsOf(contentType)
	if err != nil {
		return nil, err
	}
	err = errForm
	for _, f := range forms {
		o, kind, decodeErr := f.Decode(body, nil, nil)
		if decodeErr != nil {
			err = decodeErr
			continue
		}
		o.GetObjectKind().SetGroupVersionKind(*kind)
		shown, showErr := s.showAny(o)
		if showErr != nil {
			return nil, showErr
		}
		if shown == nil {
			return body, nil
		}
		var out bytes.Buffer
		if err := f.Encode(shown, &out); err != nil {
			return nil, err
		}
		return out.Bytes(), nil
	}
	return nil, err
}

// showAny reduces an object, a list of objects, or their metadata to what the caller sees; nil if nothing in the
// response could be hidden.
func (s *sight) showAny(o runtime.Object) (runtime.Object, error) {
	kind := o.GetObjectKind().GroupVersionKind().Kind
	own := s.holder.Snapshot.Served.OwnKind(resourceOf(s.attrs))
	by := s.filters.schemeOf(resourceOf(s.attrs))
	switch {
	case kind == "Status":
		return nil, nil
	case kind == "PartialObjectMetadata":
		return s.fields.Show(o, nil)
	case kind == own && own != "":
		return s.show(o, by, nil)
	case meta.IsListType(o) && (kind == own+"List" || kind == "PartialObjectMetadataList" || kind == "List"):
		return o, s.showItems(o)
	case s.attrs.GetSubresource() != "" && kind != "Table":
		return nil, nil // a Scale, an Eviction, a Binding
	}
	return nil, fmt.Errorf("the response to a write of %s is a %s", own, kind)
}

func (s *sight) showItems(list runtime.Object) error {
	if u, ok := list.(*unstructured.UnstructuredList); ok {
		for i := range u.Items {
			shown, err := s.showAny(&u.Items[i])
			if err != nil {
				return err
			}
			if one, ok := shown.(*unstructured.Unstructured); ok {
				u.Items[i] = *one
			}
		}
		return nil
	}
	items, err := itemsOf(list)
	if err != nil {
		return err
	}
	by, memo := s.filters.schemeOf(resourceOf(s.attrs)), &hiddenfield.Memo{}
	for i := range items.Len() {
		o, ok := items.Index(i).Addr().Interface().(runtime.Object)
		if !ok {
			return errForm
		}
		var shown runtime.Object
		if _, partial := o.(*metav1.PartialObjectMetadata); partial {
			shown, err = s.fields.Show(o, memo)
		} else {
			shown, err = s.showItem(o, list, by, memo)
		}
		if err != nil {
			return err
		}
		items.Index(i).Set(reflect.ValueOf(shown).Elem())
	}
	return nil
}

// showItem does the same for an item of a list, which supplies the version if the item lacks it.
func (s *sight) showItem(o, list runtime.Object, by *scheme, memo *hiddenfield.Memo) (runtime.Object, error) {
	own := o.GetObjectKind().GroupVersionKind()
	if own.Version == "" {
		o = o.DeepCopyObject()
		o.GetObjectKind().SetGroupVersionKind(list.GetObjectKind().GroupVersionKind().GroupVersion().WithKind(s.holder.Snapshot.Served.OwnKind(resourceOf(s.attrs))))
	}
	shown, err := s.show(o, by, memo)
	if err == nil {
		shown.GetObjectKind().SetGroupVersionKind(own)
	}
	return shown, err
}
