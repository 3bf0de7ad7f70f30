package protectedattr

import (
	"fmt"
	"reflect"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// layout says where a Go type keeps its metadata and its templates, as field indexes, so a check walks structs without
// looking up names. meta is nil for a type without metadata, such as connect options. The zero layout serves decoded
// JSON.
type layout struct {
	meta  []int
	sites []siteLayout
}

// siteLayout is a site's path, key and sub in one Go type, and the metadata of the carrier at its end.
type siteLayout struct {
	path, key, sub [][]int
	meta           []int
}

// layouts caches layouts by type and by whether templates were asked for. It only ever grows, by one entry per Go type
// that the server has; a cached layout equals a computed one.
type layouts struct{ plain, templates sync.Map }

func (l *layouts) of(n node, sites []site) (*layout, error) {
	if !n.typed.IsValid() {
		return looseLayout(len(sites)), nil
	}
	cache := &l.plain
	if len(sites) > 0 {
		cache = &l.templates
	}
	t := n.typed.Type()
	if known, ok := cache.Load(t); ok {
		return known.(*layout), nil
	}
	made, err := makeLayout(t, sites)
	if err != nil {
		return nil, err
	}
	cache.Store(t, made)
	return made, nil
}

// maxSites is at least the number of sites of any resource; a test checks that.
const maxSites = 4

// loose is the layout of decoded JSON, which needs no indexes; its sites are as many as any resource has.
var loose = &layout{sites: make([]siteLayout, maxSites)}

func looseLayout(sites int) *layout {
	if sites <= maxSites {
		return loose
	}
	return &layout{sites: make([]siteLayout, sites)}
}

func makeLayout(t reflect.Type, sites []site) (*layout, error) {
	l := &layout{}
	meta, err := metaIndex(t)
	if err != nil && reflect.PointerTo(t).Implements(reflect.TypeFor[metav1.ObjectMetaAccessor]()) {
		return nil, err // its metadata is in a place that we do not check: refuse
	}
	l.meta = meta
	for i := range sites {
		sl, err := makeSiteLayout(t, &sites[i])
		if err != nil {
			return nil, fmt.Errorf("%s: %w", sites[i].text, err)
		}
		l.sites = append(l.sites, sl)
	}
	return l, nil
}

func makeSiteLayout(t reflect.Type, s *site) (sl siteLayout, err error) {
	carrier := t
	if sl.path, carrier, err = indexes(carrier, s.path); err != nil {
		return sl, err
	}
	if s.isList() {
		if carrier.Kind() != reflect.Slice {
			return sl, fmt.Errorf("%s is not a list", carrier)
		}
		carrier = carrier.Elem()
		var key reflect.Type
		if sl.key, key, err = indexes(carrier, s.key); err != nil {
			return sl, err
		}
		if key.Kind() != reflect.String {
			return sl, fmt.Errorf("%s is not a name", key)
		}
		if sl.sub, carrier, err = indexes(carrier, s.sub); err != nil {
			return sl, err
		}
	}
	sl.meta, err = metaIndex(carrier)
	return sl, err
}

// indexes resolves JSON names to field indexes, looking through pointers, and returns the type at the end.
func indexes(t reflect.Type, names []string) ([][]int, reflect.Type, error) {
	var path [][]int
	for _, name := range names {
		if t.Kind() != reflect.Struct {
			return nil, nil, fmt.Errorf("%s has no fields", t)
		}
		f, ok := t.FieldByName(goName(name))
		if !ok {
			return nil, nil, fmt.Errorf("%s has no field %s", t, goName(name))
		}
		path = append(path, f.Index)
		if t = f.Type; t.Kind() == reflect.Pointer {
			t = t.Elem()
		}
	}
	return path, t, nil
}

func goName(json string) string {
	if json == "metadata" {
		return "ObjectMeta"
	}
	return strings.ToUpper(json[:1]) + json[1:]
}

func metaIndex(t reflect.Type) ([]int, error) {
	if t.Kind() == reflect.Struct {
		if f, ok := t.FieldByName("ObjectMeta"); ok && f.Type == reflect.TypeFor[metav1.ObjectMeta]() {
			return f.Index, nil
		}
	}
	return nil, fmt.Errorf("%s has no ObjectMeta", t)
}
