package auditrule

import (
	auditinternal "k8s.io/apiserver/pkg/apis/audit"

	"proviso.dev/proviso/api/auditregistration/v1alpha1"
)

// Level is an audit level that can be compared. Its zero value is None: in doubt, nothing is recorded for a sink.
type Level uint8

// The levels, each with more detail than the one before.
const (
	None Level = iota
	Metadata
	Request
	RequestResponse
)

var levelNames = [...]auditinternal.Level{
	None: auditinternal.LevelNone, Metadata: auditinternal.LevelMetadata,
	Request: auditinternal.LevelRequest, RequestResponse: auditinternal.LevelRequestResponse,
}

// LevelOf returns the level of that name; false if there is none. The empty name is not a level.
func LevelOf[T ~string](name T) (Level, bool) {
	for l, n := range levelNames {
		if string(n) == string(name) {
			return Level(l), true
		}
	}
	return None, false
}

// Audit returns the level as upstream's audit names it.
func (l Level) Audit() auditinternal.Level {
	if int(l) >= len(levelNames) {
		return auditinternal.LevelNone
	}
	return levelNames[l]
}

func (l Level) String() string { return string(l.Audit()) }

// policyLevel reads the level of a sink's policy, where leaving it out means None.
func policyLevel(l v1alpha1.Level) (Level, bool) {
	if l == "" {
		return None, true
	}
	return LevelOf(l)
}
