package protectedattr

import (
	"errors"
	"fmt"
)

// Check decides a create, update, patch or apply, of a resource or one of its subresources, by what it changes. old is
// the stored object, nil on create; new is the final, mutated object. Each is decoded JSON (map[string]interface{}), an
// Unstructured, or a pointer to a struct with an embedded ObjectMeta, versioned or internal. Deleting an object sets
// and removes nothing on it and needs no check.
func (ix *Index) Check(req *Request, old, new any) Result {
	if ix.Len() == 0 {
		return Result{allowed: true}
	}
	c := check{ix: ix, req: req, namespace: req.scope()}
	err := c.object(old, new)
	switch {
	case err == nil && c.found == nil:
		return Result{allowed: true}
	// Identity is checked last: almost every write touches nothing protected.
	case req.omnipotent() || ix.exempt.apply(req, old, new):
		return Result{allowed: true}
	case err != nil:
		return Result{err: err}
	}
	return Result{refusal: c.found}
}

// check is one run over an object. It lives on the caller's stack.
type check struct {
	ix        *Index
	req       *Request
	namespace string
	found     *Refusal
	// where the pair under examination sits: nil for the object's own metadata.
	site *site
	// element of the site's list.
	element element
}

// errMalformed is only for protected keys; a malformed value of an unprotected key is not ours to refuse.
var errMalformed = errors.New("its value is not a string")

// object checks the object's own metadata and then what it carries for other objects, until something is refused.
func (c *check) object(old, new any) error {
	before, err := rootOf(old)
	if err != nil {
		return err
	}
	after, err := rootOf(new)
	if err != nil {
		return err
	}
	sites := sitesOf(c.req.Group, c.req.Resource, c.req.Subresource)
	oldLayout, err := c.ix.layouts.of(before, sites)
	if err != nil {
		return err
	}
	newLayout, err := c.ix.layouts.of(after, sites)
	if err != nil {
		return err
	}
	if err := c.pair(before, after, oldLayout.meta, newLayout.meta); err != nil || c.found != nil {
		return err
	}
	for i := range sites {
		c.site = &sites[i]
		if err := c.templates(before, after, &oldLayout.sites[i], &newLayout.sites[i]); err != nil || c.found != nil {
			return err
		}
	}
	return nil
}

// pair compares one carrier of metadata with its former self; either may be absent.
func (c *check) pair(old, new node, oldMeta, newMeta []int) error {
	oldLabels, oldAnnotations, err := old.metadata(oldMeta)
	if err != nil {
		return c.located(err)
	}
	newLabels, newAnnotations, err := new.metadata(newMeta)
	if err != nil {
		return c.located(err)
	}
	if err := c.compare(Label, oldLabels, newLabels); err != nil || c.found != nil {
		return err
	}
	return c.compare(Annotation, oldAnnotations, newAnnotations)
}

// compare visits every key of both sides exactly once. Because it looks up the object's keys, and not the protected
// ones, protections are free for objects that do not carry them.
func (c *check) compare(kind Attribute, old, new attributes) error {
	rules := &c.ix.rules[kind]
	if rules.empty() {
		return nil
	}
	for key := range new.typed {
		if err := c.either(kind, key, rules, old, new); err != nil {
			return err
		}
	}
	for key := range new.loose {
		if err := c.either(kind, key, rules, old, new); err != nil {
			return err
		}
	}
	for key := range old.typed {
		if !new.has(key) {
			if err := c.either(kind, key, rules, old, new); err != nil {
				return err
			}
		}
	}
	for key := range old.loose {
		if !new.has(key) {
			if err := c.either(kind, key, rules, old, new); err != nil {
				return err
			}
		}
	}
	return nil
}

// either checks a key against its own rule and against the one for every key.
func (c *check) either(kind Attribute, key string, rules *keyset, old, new attributes) error {
	if r := rules.get(key); r != nil {
		if err := c.key(kind, key, r, old, new); err != nil {
			return err
		}
	}
	if rules.every != nil {
		return c.key(kind, key, rules.every, old, new)
	}
	return nil
}

// key decides one protected key. The new value is checked before the one it replaces, the cluster's level before the
// namespace's.
func (c *check) key(kind Attribute, key string, r *rule, old, new attributes) error {
	if c.found != nil && c.found.Key <= key {
		return nil // refused already; only a smaller key would change the message
	}
	was, hadOld, oldMalformed := old.value(key)
	is, hasNew, newMalformed := new.value(key)
	if newMalformed || oldMalformed {
		return c.located(fmt.Errorf("%s %q: %w", kind, key, errMalformed))
	}
	if hadOld == hasNew && was == is {
		return nil
	}
	at := placeOf(c.req, c.site)
	for _, l := range [2]*level{&r.cluster, r.at(c.namespace)} {
		switch {
		case hasNew && !l.permits(is, at, c.req):
			c.refuse(&Refusal{Attribute: kind, Key: key, Value: is}, l, at)
			return nil
		case hadOld && !l.releases(was, at, c.req):
			c.refuse(&Refusal{Attribute: kind, Key: key, Value: was, Removed: true}, l, at)
			return nil
		}
	}
	return nil
}

func (c *check) refuse(refusal *Refusal, l *level, at place) {
	refusal.Where = c.where()
	covering := l.covering(refusal.Value, at, c.req)
	if len(covering) == 0 {
		covering = l.closing(at, c.req)
		refusal.Unlisted = !refusal.Removed
	}
	if refusal.Removed && len(l.closing(at, c.req)) > 0 && !l.lists(refusal.Value, at, c.req) {
		covering = l.applying(at, c.req)
	}
	for _, p := range covering {
		if refusal.Unlisted {
			refusal.Listed = appendNew(refusal.Listed, p.values...)
		}
		refusal.Protections = append(refusal.Protections, Named{Kind: p.kind(), Name: p.name, Role: p.role, Unreadable: p.unreadable})
	}
	c.found = refusal
}

// where returns the place under examination in words.
func (c *check) where() string {
	switch {
	case c.site == nil:
		return ""
	case c.site.isList():
		return c.site.text + "[" + c.element.name() + "]"
	}
	return c.site.text
}

func (c *check) located(err error) error {
	if where := c.where(); where != "" {
		return fmt.Errorf("%s: %w", where, err)
	}
	return err
}
