package protectedattr

import "strconv"

// templates compares what an object carries for other objects at one site with what it carried before.
func (c *check) templates(old, new node, oldLayout, newLayout *siteLayout) error {
	before, err := old.follow(c.site.path, oldLayout.path)
	if err != nil {
		return err
	}
	after, err := new.follow(c.site.path, newLayout.path)
	if err != nil {
		return err
	}
	if !c.site.isList() {
		return c.pair(before, after, oldLayout.meta, newLayout.meta)
	}
	was := carriers{site: c.site, layout: oldLayout, list: before}
	is := carriers{site: c.site, layout: newLayout, list: after}
	if was.length, err = before.length(); err != nil {
		return c.located(err)
	}
	if is.length, err = after.length(); err != nil {
		return c.located(err)
	}
	return c.carriers(was, is)
}

// carriers is a list of carriers of metadata, each with a name.
type carriers struct {
	site   *site
	layout *siteLayout
	list   node
	length int
}

// at returns the i-th carrier, absent if that element has none (a volume that is not ephemeral).
func (h carriers) at(i int) (node, error) {
	return h.list.at(i).follow(h.site.sub, h.layout.sub)
}

func (h carriers) name(i int) (string, error) {
	n, err := h.list.at(i).follow(h.site.key, h.layout.key)
	return n.text(), err
}

// carriers pairs elements by name. Elements are almost always the same ones in the same order, which needs no memory;
// otherwise the n-th element with a name is paired with the former n-th with that name. Removing an element removes its
// attributes: dropping it and adding it back without them must not be a way to remove them.
func (c *check) carriers(was, is carriers) error {
	aligned, err := inStep(was, is)
	if err != nil {
		return c.located(err)
	}
	if aligned {
		for i := range is.length {
			if err := c.carrier(was, i, is, i); err != nil || c.found != nil {
				return err
			}
		}
		return nil
	}
	type occurrence struct {
		name string
		nth  int
	}
	seen := map[string]int{}
	former := make(map[occurrence]int, was.length)
	for i := range was.length {
		name, err := was.name(i)
		if err != nil {
			return c.located(err)
		}
		former[occurrence{name, seen[name]}] = i
		seen[name]++
	}
	clear(seen)
	paired := make([]bool, was.length)
	for i := range is.length {
		name, err := is.name(i)
		if err != nil {
			return c.located(err)
		}
		j, ok := former[occurrence{name, seen[name]}]
		seen[name]++
		if ok {
			paired[j] = true
		} else {
			j = -1
		}
		if err := c.carrier(was, j, is, i); err != nil || c.found != nil {
			return err
		}
	}
	for j, ok := range paired {
		if !ok {
			if err := c.carrier(was, j, is, -1); err != nil || c.found != nil {
				return err
			}
		}
	}
	return nil
}

// inStep reports whether both lists have the same names in the same order.
func inStep(was, is carriers) (bool, error) {
	if was.length != is.length {
		return false, nil
	}
	for i := range is.length {
		a, err := was.name(i)
		if err != nil {
			return false, err
		}
		b, err := is.name(i)
		if err != nil || a != b {
			return false, err
		}
	}
	return true, nil
}

// carrier compares an element with its former self; an index of -1 means there is none.
func (c *check) carrier(was carriers, i int, is carriers, j int) error {
	var old, new node
	var err error
	if i >= 0 {
		if old, err = was.at(i); err != nil {
			return c.located(err)
		}
	}
	if j >= 0 {
		if new, err = is.at(j); err != nil {
			return c.located(err)
		}
	}
	if old.absent() && new.absent() {
		return nil
	}
	c.element = element{was, is, i, j}
	return c.pair(old, new, was.layout.meta, is.layout.meta)
}

// element is a pair of list elements, or one without a partner, whose other index is -1.
type element struct {
	was, is carriers
	i, j    int
}

// name returns the name of the element in a refusal. It is only called when there is one.
func (e element) name() string {
	h, at := e.is, e.j
	if at < 0 {
		h, at = e.was, e.i
	}
	if at < 0 || at >= h.length {
		return ""
	}
	if name, _ := h.name(at); name != "" {
		return name
	}
	return strconv.Itoa(at)
}
