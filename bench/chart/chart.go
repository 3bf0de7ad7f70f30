package chart

import (
	"fmt"
	"math"
	"slices"
)

// Point is a cost at a size. Both are positive; others are not drawn.
type Point struct{ Size, Cost float64 }

// Series is one line of a picture.
type Series struct {
	Name   string
	Points []Point
	// Ours is drawn more strongly than its peers.
	Ours bool
}

// Chart is one picture.
type Chart struct {
	Title string
	// Size and Cost say what the axes are.
	Size, Cost string
	// Format writes a cost on the axis.
	Format func(float64) string
	Series []Series
}

// scale maps a range of values to a range of pixels.
type scale struct{ low, high, from, to float64 }

func (s scale) at(v float64) float64 {
	return s.from + (math.Log10(v)-s.low)/(s.high-s.low)*(s.to-s.from)
}

// decades are the powers of ten within.
func (s scale) decades() []float64 {
	var all []float64
	for e := math.Ceil(s.low - 1e-9); e <= s.high+1e-9; e++ {
		all = append(all, math.Pow(10, e))
	}
	return all
}

// drawn are the points of a series that have a place, by size.
func (s Series) drawn() []Point {
	points := slices.DeleteFunc(slices.Clone(s.Points), func(p Point) bool {
		return !(p.Size > 0) || !(p.Cost > 0) || math.IsInf(p.Size, 0) || math.IsInf(p.Cost, 0)
	})
	slices.SortFunc(points, func(a, b Point) int { return int(math.Copysign(1, a.Size-b.Size)) })
	return points
}

// scales cover all points; costs by whole decades, so that the steepness of lines can be compared between pictures.
func (c *Chart) scales() (x, y scale, err error) {
	x = scale{math.Inf(1), math.Inf(-1), left, width - right}
	y = scale{math.Inf(1), math.Inf(-1), height - bottom, top}
	for _, s := range c.Series {
		for _, p := range s.drawn() {
			x.low, x.high = min(x.low, math.Log10(p.Size)), max(x.high, math.Log10(p.Size))
			y.low, y.high = min(y.low, math.Log10(p.Cost)), max(y.high, math.Log10(p.Cost))
		}
	}
	if math.IsInf(x.low, 0) {
		return x, y, fmt.Errorf("%s: no point can be drawn", c.Title)
	}
	if x.low == x.high {
		x.low, x.high = x.low-0.5, x.high+0.5
	}
	y.low, y.high = math.Floor(y.low), math.Ceil(y.high)
	if y.low == y.high {
		y.high++
	}
	return x, y, nil
}
