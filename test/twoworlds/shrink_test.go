package twoworlds

import (
	"slices"
	"strings"
)

// shrink makes a case as small as it can be while it still shows the same. shows plays a case; tries bounds how often.
func shrink(c *Case, tries int, shows func(*Case) bool) *Case {
	best := c.clone()
	attempt := func(change func(*Case) bool) bool {
		next := best.clone()
		if tries == 0 || !change(next) || !next.hidden() || len(next.Steps) == 0 || len(next.Caller) == 0 {
			return false
		}
		tries--
		if !shows(next) {
			return false
		}
		best = next
		return true
	}
	for again := true; again && tries > 0; {
		again = cut(attempt, func(c *Case) *[]Step { return &c.Steps }, func() *Case { return best })
		again = cut(attempt, func(c *Case) *[]string { return &c.Caller }, func() *Case { return best }) || again
		again = cut(attempt, func(c *Case) *[]string { return &c.Granted }, func() *Case { return best }) || again
		again = cut(attempt, func(c *Case) *[]string { return &c.Links }, func() *Case { return best }) || again
		again = cut(attempt, func(c *Case) *[]Object { return &c.Objects }, func() *Case { return best }) || again
		again = attempt(func(c *Case) bool { had := c.Quota > 0; c.Quota = 0; return had }) || again
		for i := range best.Steps {
			again = simplifyStep(attempt, i, best.Steps[i]) || again
		}
		for i := range best.Objects {
			for _, change := range []func(o *Object) bool{
				func(o *Object) bool { had := o.Owner != ""; o.Owner = ""; return had },
				func(o *Object) bool { had := o.Tier != ""; o.Tier = ""; return had },
				func(o *Object) bool { had := o.Hid != ""; o.Hid = ""; return had },
				func(o *Object) bool { had := o.Ending; o.Ending = false; return had },
				func(o *Object) bool { had := o.Was != "" && !o.Gone; o.Was, o.WasTeam = "", ""; return had },
				func(o *Object) bool { had := o.WasTeam != ""; o.WasTeam = ""; return had },
			} {
				again = attempt(func(c *Case) bool { return change(&c.Objects[i]) }) || again
			}
		}
	}
	return best
}

// simplifyStep makes a step plainer.
func simplifyStep(attempt func(func(*Case) bool) bool, i int, s Step) (again bool) {
	again = attempt(func(c *Case) bool { had := c.Steps[i].Accept != ""; c.Steps[i].Accept = ""; return had })
	again = attempt(func(c *Case) bool { had := c.Steps[i].Meanwhile; c.Steps[i].Meanwhile = false; return had }) || again
	again = attempt(func(c *Case) bool {
		had := c.Steps[i].Method == "DELETE" && c.Steps[i].Body != ""
		if had {
			c.Steps[i].Body, c.Steps[i].Type = "", ""
		}
		return had
	}) || again
	again = attempt(func(c *Case) bool {
		before := c.Steps[i].Path
		c.Steps[i].Path = strings.Replace(before, "/v1beta1/", "/v1/", 1)
		return before != c.Steps[i].Path
	}) || again
	for parameter := range strings.SplitSeq(s.Query, "&") {
		again = attempt(func(c *Case) bool {
			all := strings.Split(c.Steps[i].Query, "&")
			left := slices.DeleteFunc(slices.Clone(all), func(p string) bool { return p == parameter })
			c.Steps[i].Query = strings.Join(left, "&")
			return parameter != "" && len(left) < len(all) && parameter != "watch=1"
		}) || again
	}
	return again
}

// cut leaves out parts of a list, halves first and single entries last.
func cut[T any](attempt func(func(*Case) bool) bool, list func(*Case) *[]T, best func() *Case) (shorter bool) {
	for size := (len(*list(best())) + 1) / 2; size > 0; size /= 2 {
		for at := 0; at < len(*list(best())); {
			if attempt(func(c *Case) bool {
				l := list(c)
				*l = slices.Delete(*l, at, min(at+size, len(*l)))
				return true
			}) {
				shorter = true
			} else {
				at += size
			}
		}
	}
	return shorter
}
