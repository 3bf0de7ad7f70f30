package chart

import (
	"fmt"
	"html"
	"io"
	"slices"
	"strings"
)

// Pixels of the picture and of its margins; names of lines are in the right one.
const (
	width, height            = 760, 420
	left, right, top, bottom = 78, 176, 56, 52
)

// colours are told apart also by those who cannot tell red from green; ours is the first.
var colours = []string{"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#555555"}

// WriteSVG draws the picture on white, so that it can be read on any page.
func (c *Chart) WriteSVG(w io.Writer) error {
	x, y, err := c.scales()
	if err != nil {
		return err
	}
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="13" fill="#333">`+"\n", width, height)
	fmt.Fprintf(&b, "<title>%s</title>\n<rect width=\"%d\" height=\"%d\" fill=\"#fff\"/>\n", html.EscapeString(c.Title), width, height)
	text(&b, left, 24, "start", `font-size="16" font-weight="bold"`, c.Title)
	c.axes(&b, x, y)
	c.lines(&b, x, y)
	b.WriteString("</svg>\n")
	_, err = io.WriteString(w, b.String())
	return err
}

func (c *Chart) axes(b *strings.Builder, x, y scale) {
	for _, v := range y.decades() {
		at := y.at(v)
		fmt.Fprintf(b, `<path d="M%d %.1fH%d" stroke="#ddd"/>`+"\n", left, at, width-right)
		text(b, left-8, at+4, "end", "", c.Format(v))
	}
	for _, v := range c.sizes() {
		at := x.at(v)
		fmt.Fprintf(b, `<path d="M%.1f %dV%d" stroke="#eee"/>`+"\n", at, top, height-bottom)
		text(b, at, height-bottom+18, "middle", "", thousands(int(v+0.5)))
	}
	text(b, (left+width-right)/2, height-12, "middle", "", c.Size)
	text(b, left, 44, "start", `fill="#777"`, c.Cost)
	fmt.Fprintf(b, `<path d="M%d %dV%dH%d" fill="none" stroke="#333"/>`+"\n", left, top, height-bottom, width-right)
}

// sizes are those that were measured.
func (c *Chart) sizes() []float64 {
	var all []float64
	for _, s := range c.Series {
		for _, p := range s.drawn() {
			all = append(all, p.Size)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

func (c *Chart) lines(b *strings.Builder, x, y scale) {
	type label struct {
		at     float64
		name   string
		colour string
		weight string
	}
	var labels []label
	next := 1
	for _, s := range slices.Backward(c.Series) { // ours, which is the first, comes to lie above the others
		points := s.drawn()
		if len(points) == 0 {
			continue
		}
		colour, weight, stroke := colours[next%len(colours)], "normal", 1.8
		if s.Ours {
			colour, weight, stroke = colours[0], "bold", 3.2
		} else {
			next++
		}
		var path strings.Builder
		for i, p := range points {
			fmt.Fprintf(&path, "%s%.1f %.1f", map[bool]string{true: "M", false: "L"}[i == 0], x.at(p.Size), y.at(p.Cost))
			fmt.Fprintf(b, `<circle cx="%.1f" cy="%.1f" r="%.1f" fill="%s"/>`+"\n", x.at(p.Size), y.at(p.Cost), stroke+1, colour)
		}
		fmt.Fprintf(b, `<path d="%s" fill="none" stroke="%s" stroke-width="%.1f"/>`+"\n", path.String(), colour, stroke)
		labels = append(labels, label{y.at(points[len(points)-1].Cost), s.Name, colour, weight})
	}
	// Names stand at the height where their line ends, and below each other where lines end together.
	slices.SortFunc(labels, func(a, b label) int { return int(a.at - b.at) })
	for i := range labels {
		if i > 0 {
			labels[i].at = max(labels[i].at, labels[i-1].at+16)
		}
	}
	for i := len(labels) - 1; i >= 0; i-- {
		limit := float64(height - bottom)
		if i < len(labels)-1 {
			limit = labels[i+1].at - 16
		}
		labels[i].at = min(labels[i].at, limit)
		text(b, width-right+10, labels[i].at+4, "start", fmt.Sprintf(`fill="%s" font-weight="%s"`, labels[i].colour, labels[i].weight), labels[i].name)
	}
}

func text(b *strings.Builder, x, y float64, anchor, more, s string) {
	if more != "" {
		more = " " + more
	}
	fmt.Fprintf(b, `<text x="%.1f" y="%.1f" text-anchor="%s"%s>%s</text>`+"\n", x, y, anchor, more, html.EscapeString(s))
}

// thousands writes 100000 as 100,000.
func thousands(n int) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
