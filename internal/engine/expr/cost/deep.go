package cost

import (
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
)

// TextPerUnit is how many bytes of text count as one value.
const TextPerUnit = 16

// Deep counts everything in a value, down to the last text, but not beyond the
// limit: lists can hold the same list many times over, so a full walk could
// take forever. Kubernetes' cost counts only the outermost entries.
func Deep(v ref.Val, limit uint64) uint64 {
	var n uint64
	countValue(v, &n, limit)
	return n
}

func countValue(v ref.Val, n *uint64, limit uint64) {
	if *n++; *n > limit {
		return
	}
	switch t := v.(type) {
	case types.String:
		*n += uint64(len(t)) / TextPerUnit
	case types.Bytes:
		*n += uint64(len(t)) / TextPerUnit
	case *types.Optional:
		if t.HasValue() {
			countValue(t.GetValue(), n, limit)
		}
	case traits.Lister, traits.Mapper:
		if countNative(v.Value(), n, limit) {
			return
		}
		m, isMap := v.(traits.Mapper)
		it := v.(traits.Iterable).Iterator()
		for it.HasNext() == types.True && *n <= limit {
			e := it.Next()
			countValue(e, n, limit)
			if isMap {
				if val, found := m.Find(e); found {
					countValue(val, n, limit)
				}
			}
		}
	}
}

// countNative counts values from JSON without wrapping them for CEL first. It returns false for other values.
func countNative(v any, n *uint64, limit uint64) bool {
	switch t := v.(type) {
	case map[string]any:
		for k, e := range t {
			if *n += uint64(len(k)) / TextPerUnit; *n > limit {
				return true
			}
			countJSON(e, n, limit)
		}
	case []any:
		for _, e := range t {
			if *n > limit {
				return true
			}
			countJSON(e, n, limit)
		}
	case []string:
		for _, s := range t {
			*n += 1 + uint64(len(s))/TextPerUnit
		}
	default:
		return false
	}
	return true
}

func countJSON(v any, n *uint64, limit uint64) {
	if *n++; *n > limit {
		return
	}
	switch t := v.(type) {
	case string:
		*n += uint64(len(t)) / TextPerUnit
	case ref.Val:
		countValue(t, n, limit)
	default:
		countNative(v, n, limit)
	}
}

// ListSize returns the number of entries of a list; false for other values.
func ListSize(v ref.Val) (uint64, bool) {
	if l, ok := v.(traits.Lister); ok {
		if n, ok := l.Size().(types.Int); ok {
			return uint64(n), true
		}
	}
	return 0, false
}

// TextSize returns the length of a text; false for other values.
func TextSize(v ref.Val) (uint64, bool) {
	s, ok := v.(types.String)
	return uint64(len(s)), ok
}
