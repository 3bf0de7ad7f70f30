package connect

// Connection is a subresource that connects, and what it connects to.
type Connection struct {
	// Resource and Kind name the target, in the core group.
	Resource, ResourceKind string
	Subresource            string
}

// all lists every connection. A Set has a bit for each of them.
var all = [...]Connection{
	{"pods", "Pod", "exec"}, {"pods", "Pod", "attach"}, {"pods", "Pod", "portforward"},
	{"pods", "Pod", "proxy"}, {"services", "Service", "proxy"}, {"nodes", "Node", "proxy"},
}

// Set is a set of connections. The zero value is empty.
type Set uint8

// Where returns the connections for which a function is true.
func Where(holds func(Connection) bool) (s Set) {
	for i, c := range all {
		if holds(c) {
			s |= 1 << i
		}
	}
	return s
}

// Has reports whether a request to a subresource is a connection in the set.
func (s Set) Has(group, resource, subresource string) bool {
	if s == 0 || group != "" {
		return false
	}
	for i := range all {
		if all[i].Resource == resource && all[i].Subresource == subresource {
			return s&(1<<i) != 0
		}
	}
	return false
}

// Kind returns how a connection is made.
func (c Connection) Kind() Kind { return Of("", c.Resource, c.Subresource) }
