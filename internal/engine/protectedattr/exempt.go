package protectedattr

import (
	"slices"
	"strings"
)

const (
	nodePrefix       = "system:node:"
	nodesGroup       = "system:nodes"
	mirrorAnnotation = "kubernetes.io/config.mirror"
)

// exemptions decide by the caller's identity, never by what the object says about itself: ownerReferences can be
// forged.
type exemptions struct {
	users, groups map[string]bool
}

func newExemptions(users, groups []string) exemptions {
	e := exemptions{users: map[string]bool{}, groups: map[string]bool{}}
	for _, u := range append(users[:len(users):len(users)], controllerManager) {
		e.users[u] = true
	}
	for u := range copiers {
		e.users[u] = true
	}
	for _, g := range groups {
		e.groups[g] = true
	}
	return e
}

// Exempts reports whether the caller may touch everything, whatever the object is.
func (ix *Index) Exempts(req *Request) bool {
	return req.omnipotent() || ix.exempt.identity(req.User, req.Groups)
}

// identity reports whether the caller is exempt, whatever it writes.
func (e *exemptions) identity(user string, groups []string) bool {
	if e.users[user] {
		return true
	}
	return slices.ContainsFunc(groups, func(g string) bool { return e.groups[g] })
}

// apply reports whether this write by this caller is exempt.
func (e *exemptions) apply(req *Request, old, new any) bool {
	if e.identity(req.User, req.Groups) {
		return true
	}
	node, ok := nodeName(req)
	if ok && req.Group == "" && req.Resource == "nodes" && new != nil {
		return ownNode(node, req, old, new)
	}
	return IsMirrorPod(req, old, new)
}

// IsMirrorPod reports whether the caller is a node that writes one of its own mirror pods, which show what already runs
// there. The marks of a mirror pod are checked on both the old and the new object, so a pod cannot be turned into one
// to change its labels. This does not trust a claim of the object, since the annotation suffices only for the node
// itself.
func IsMirrorPod(req *Request, old, new any) bool {
	node, ok := nodeName(req)
	return ok && req.Group == "" && req.Resource == "pods" && isMirrorOf(node, new) && (isAbsent(old) || isMirrorOf(node, old))
}

func nodeName(req *Request) (string, bool) {
	node, ok := strings.CutPrefix(req.User, nodePrefix)
	return node, ok && node != "" && slices.Contains(req.Groups, nodesGroup)
}

// ownNode requires every known node name to be the caller's own.
func ownNode(node string, req *Request, old, new any) bool {
	if req.Name != "" && req.Name != node {
		return false
	}
	return textAt(new, "metadata", "name") == node && (isAbsent(old) || textAt(old, "metadata", "name") == node)
}

func isMirrorOf(node string, pod any) bool {
	root, err := rootOf(pod)
	if err != nil || root.absent() {
		return false
	}
	var meta []int
	if root.typed.IsValid() {
		if meta, err = metaIndex(root.typed.Type()); err != nil {
			return false
		}
	}
	_, annotations, err := root.metadata(meta)
	if err != nil {
		return false
	}
	_, mirror, malformed := annotations.value(mirrorAnnotation)
	return mirror && !malformed && textAt(pod, "spec", "nodeName") == node
}

func isAbsent(obj any) bool {
	root, err := rootOf(obj)
	return err == nil && root.absent()
}

// textAt reads a string by its JSON names; a missing one reads as empty, which matches nothing.
func textAt(obj any, names ...string) string {
	root, err := rootOf(obj)
	if err != nil || root.absent() {
		return ""
	}
	var fields [][]int
	if root.typed.IsValid() {
		if fields, _, err = indexes(root.typed.Type(), names); err != nil {
			return ""
		}
	}
	n, err := root.follow(names, fields)
	if err != nil {
		return ""
	}
	return n.text()
}
