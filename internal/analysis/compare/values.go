package compare

import (
	"math"
	"slices"
	"strings"
)

// pool is what is done with the values of paths that are compared with each other: they need the same candidates.
type pool struct {
	constant                  []any
	prefixes, suffixes, parts []string
	sizes                     []int64
	ordered, sampled          bool
	splits                    []split
	variants                  int  // how many different values of each class are needed
	capped                    bool // more are needed than variants
}

// bounds of what is made; beyond them, values are samples.
const (
	maxParts    = 4
	maxVariants = 6
	maxStates   = 600
	maxElements = 200
)

// poolOf gathers a path and those that it is compared with, directly or not.
func poolOf(n *node) *pool {
	p := &pool{}
	seen := map[*node]bool{}
	var visit func(*node)
	visit = func(n *node) {
		if seen[n] {
			return
		}
		seen[n] = true
		p.constant = append(p.constant, n.constant...)
		p.prefixes = append(p.prefixes, n.prefixes...)
		p.suffixes = append(p.suffixes, n.suffixes...)
		p.parts = append(p.parts, n.parts...)
		p.sizes = append(p.sizes, n.sizes...)
		p.ordered = p.ordered || n.ordered
		p.sampled = p.sampled || n.sampled
		p.splits = append(p.splits, n.splits...)
		if n.shape != nil {
			p.constant = append(p.constant, n.shape.Enum...)
		}
		for _, other := range n.equals {
			visit(other)
		}
	}
	visit(n)
	p.variants, p.capped = min(len(seen), maxVariants), len(seen) > maxVariants
	return p
}

// set collects different values.
type set struct {
	values []any
	seen   map[string]bool
}

func (s *set) add(values ...any) {
	if s.seen == nil {
		s.seen = map[string]bool{}
	}
	for _, v := range values {
		if k := key(v); !s.seen[k] {
			s.seen[k] = true
			s.values = append(s.values, v)
		}
	}
}

// scalars are the texts, numbers and ternary values that tell the atoms apart. partial: there may be more to tell
// apart.
func (p *pool) scalars(shape *Shape) (out []any, partial bool) {
	if len(shape.Enum) > 0 {
		return shape.Enum, p.sampled
	}
	var all set
	partial = p.sampled || p.capped && shape.Type != Bool
	if shape.Type == String || shape.Type == Any || shape.Type == Opaque {
		values, some := p.texts()
		for _, v := range values {
			if v != "" || !shape.Full {
				all.add(v)
			}
		}
		partial = partial || some || shape.Type == Opaque && len(p.constant)+len(p.prefixes)+len(p.suffixes)+len(p.parts)+len(p.sizes) > 0
	}
	if shape.Type == Int || shape.Type == Number || shape.Type == Any {
		values, some := p.numbers(shape)
		for _, v := range values {
			if f, ok := number(v); !shape.Full || !ok || f != 0 {
				all.add(v)
			}
		}
		partial = partial || some
	}
	if shape.Type == Bool || shape.Type == Any {
		all.add(true)
		if !shape.Full {
			all.add(false)
		}
	}
	return all.values, partial
}

// texts are the constants and one text for each way of being none of them.
func (p *pool) texts() (out []any, partial bool) {
	var all set
	var constants []string
	for _, c := range p.constant {
		if s, ok := c.(string); ok {
			constants = append(constants, s)
		}
	}
	filler := fillerFor(slices.Concat(constants, p.prefixes, p.suffixes, p.parts))
	fragments := len(p.prefixes) + len(p.suffixes) + len(p.parts)
	kinds := 0
	for _, used := range []bool{fragments > 0, p.ordered && len(constants) > 0, len(p.sizes) > 0, len(p.splits) > 0} {
		if used {
			kinds++
		}
	}
	partial = kinds > 1 || len(p.splits) > 1 || p.ordered && p.variants > 1 && len(constants) > 0
	if len(p.parts) > maxParts {
		partial = true
	}
	if len(p.splits) == 0 {
		for i := range p.variants {
			all.add(strings.Repeat(filler, i+1))
		}
		for _, c := range constants {
			all.add(c)
		}
	}
	p.fragmented(&all, filler)
	if p.ordered {
		slices.Sort(constants)
		all.add("")
		for i, c := range constants {
			after := c + "!"
			if i+1 < len(constants) && after >= constants[i+1] {
				after = c + "\x00"
			}
			all.add(after)
		}
		if len(constants) > 0 && constants[0] > "!" {
			all.add("!")
		}
	}
	for _, n := range p.sizes {
		for _, length := range []int64{n - 1, n, n + 1} {
			taken := constants
			for range p.variants {
				letter := fillerFor(taken)
				taken = append(taken[:len(taken):len(taken)], letter)
				all.add(strings.Repeat(letter, int(max(length, 0))))
			}
		}
	}
	for _, s := range p.splits {
		all.add(filler)
		targets := append([]string{filler}, constants...)
		for i := range p.variants {
			targets = append(targets, strings.Repeat(filler, i+1))
		}
		for _, c := range targets {
			all.add(c)
			if !strings.Contains(c, s.by) {
				all.add(strings.Repeat(filler+s.by, s.at) + c)
			}
		}
	}
	return all.values, partial
}

// fragmented adds texts with every choice of longest prefix, longest suffix and contained parts. A text is told from
// another only by these, since the filler occurs in none of them.
func (p *pool) fragmented(all *set, filler string) {
	if len(p.prefixes)+len(p.suffixes)+len(p.parts) == 0 {
		return
	}
	subsets := [][]string{nil}
	for _, part := range p.parts[:min(len(p.parts), maxParts)] {
		for _, s := range subsets[:len(subsets):len(subsets)] {
			subsets = append(subsets, append(s[:len(s):len(s)], part))
		}
	}
	for _, prefix := range append([]string{""}, p.prefixes...) {
		for _, suffix := range append([]string{""}, p.suffixes...) {
			for _, parts := range subsets {
				for i := range p.variants {
					middle := strings.Repeat(filler, i+1)
					if len(parts) > 0 {
						middle += strings.Join(parts, filler) + filler
					}
					all.add(prefix + middle + suffix)
				}
			}
		}
	}
}

// fillerFor is a letter that is in none of the texts.
func fillerFor(texts []string) string {
	for _, c := range "xyzqjkwvubcdfghmnprstaeiol0123456789XYZQJKWVUBCDFGHMNPRSTAEIOL" {
		if !slices.ContainsFunc(texts, func(s string) bool { return strings.ContainsRune(s, c) }) {
			return string(c)
		}
	}
	return "\u00a4"
}

func number(v any) (float64, bool) {
	switch v := v.(type) {
	case int64:
		return float64(v), true
	case float64:
		return v, true
	}
	return 0, false
}

// numbers are the constants, and numbers between any two and beyond them: one, or as many as there are paths that are
// compared with each other, since these can differ within one gap.
func (p *pool) numbers(shape *Shape) (out []any, partial bool) {
	var all set
	each := int64(1)
	if p.ordered {
		each = int64(p.variants)
	}
	for _, c := range p.constant {
		switch c := c.(type) {
		case int64:
			all.add(c)
			all.around(c, c, each)
			if shape.Type != Int {
				all.add(float64(c)+0.5, float64(c)-0.5)
				partial = partial || each > 1 // there may be fewer whole numbers in a gap
			}
		case float64:
			floor, ceil := int64(math.Floor(c)), int64(math.Ceil(c))
			all.add(floor, ceil)
			all.around(floor, ceil, each)
			if shape.Type != Int {
				all.add(c, math.Nextafter(c, math.Inf(1)), math.Nextafter(c, math.Inf(-1)))
				partial = partial || each > 1
			}
		}
	}
	fresh := int64(1)
	for made := 0; made < p.variants; fresh++ {
		if !all.seen[key(fresh)] {
			all.add(fresh)
			made++
		}
	}
	return all.values, partial
}

// around adds the next whole numbers below and above two.
func (s *set) around(low, high, each int64) {
	for i := int64(1); i <= each; i++ {
		if high <= math.MaxInt64-i {
			s.add(high + i)
		}
		if low >= math.MinInt64+i {
			s.add(low - i)
		}
	}
}
