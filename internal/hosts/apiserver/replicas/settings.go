package replicas

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Settings are what replicas must have in common, because requests are decided by it.
type Settings struct {
	// MasterNamespace is the namespace whose policy holds everywhere.
	MasterNamespace string `json:"masterNamespace"`
	// Gates are the feature gates of our systems.
	Gates map[string]bool `json:"gates"`
	// Needs is what every replica has to know, and when that was said last.
	Needs map[string]int64 `json:"needs"`
}

// differences lists, in words, where s is not what the record says. A gate that one of the two does not know belongs to
// another release and does not count as a difference.
func (s Settings) differences(record Settings) []string {
	var all []string
	if s.MasterNamespace != record.MasterNamespace {
		all = append(all, fmt.Sprintf("--policy-master-namespace is %q here and %q in the record", s.MasterNamespace, record.MasterNamespace))
	}
	for _, gate := range slices.Sorted(maps.Keys(s.Gates)) {
		if agreed, known := record.Gates[gate]; known && agreed != s.Gates[gate] {
			all = append(all, fmt.Sprintf("feature gate %s is %t here and %t in the record", gate, s.Gates[gate], agreed))
		}
	}
	return all
}

// missing reports whether s has a gate that the record does not know: a newer release adds it.
func (s Settings) missing(record Settings) bool {
	for gate := range s.Gates {
		if _, known := record.Gates[gate]; !known {
			return true
		}
	}
	return false
}

// completed is the record with the gates that only s knows.
func (s Settings) completed(record Settings) Settings {
	gates := maps.Clone(s.Gates)
	maps.Copy(gates, record.Gates)
	return Settings{MasterNamespace: record.MasterNamespace, Gates: gates, Needs: record.Needs}
}

// DifferError says where a server differs from the record.
type DifferError struct{ Differences []string }

func (e *DifferError) Error() string {
	return "this replica differs from what the replicas on this etcd have agreed on: " + strings.Join(e.Differences, "; ") +
		". Start it with the agreed settings, or start it once with --agree to change the record: the other replicas are then not ready until they are started with the same settings"
}
