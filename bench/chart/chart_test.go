package chart

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"testing"
)

func linear() *Chart {
	return &Chart{Title: "a < b", Size: "bindings", Cost: "time", Format: func(v float64) string { return fmt.Sprint(v) }, Series: []Series{
		{Name: "ours", Ours: true, Points: []Point{{100, 5}, {1000, 5}, {10000, 5}}},
		{Name: "peer", Points: []Point{{10000, 5000}, {100, 50}, {1000, 500}, {5, 0}, {0, 5}, {7, math.NaN()}}},
		{Name: "absent"},
	}}
}

// What is drawn is well-formed XML with every size and name, and without what has no logarithm.
func TestSVG(t *testing.T) {
	var b strings.Builder
	if err := linear().WriteSVG(&b); err != nil {
		t.Fatal(err)
	}
	circles, words := 0, map[string]bool{}
	for d := xml.NewDecoder(strings.NewReader(b.String())); ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("%v in\n%s", err, b.String())
		}
		switch e := token.(type) {
		case xml.StartElement:
			if e.Name.Local == "circle" {
				circles++
			}
		case xml.CharData:
			words[string(e)] = true
		}
	}
	if circles != 6 {
		t.Errorf("%d points are drawn, want 6", circles)
	}
	for _, want := range []string{"a < b", "ours", "peer", "100", "1,000", "10,000", "bindings", "time"} {
		if !words[want] {
			t.Errorf("the picture lacks %q", want)
		}
	}
	if words["absent"] || strings.Contains(b.String(), "NaN") || strings.Contains(b.String(), "Inf") {
		t.Errorf("points without a place are drawn:\n%s", b.String())
	}
}

// Ten times the size at ten times the cost is the same step to the right and up, all the way.
func TestScalesAreLogarithmic(t *testing.T) {
	x, y, err := linear().scales()
	if err != nil {
		t.Fatal(err)
	}
	if a, b := x.at(1000)-x.at(100), x.at(10000)-x.at(1000); math.Abs(a-b) > 1e-9 || a <= 0 {
		t.Errorf("decades of size are %v and %v wide", a, b)
	}
	if a, b := y.at(50)-y.at(500), y.at(500)-y.at(5000); math.Abs(a-b) > 1e-9 || a <= 0 {
		t.Errorf("decades of cost are %v and %v high", a, b)
	}
	if y.at(1) != height-bottom || y.at(10000) != top {
		t.Errorf("costs from 1 to 10000 lie at %v to %v", y.at(1), y.at(10000))
	}
}

func TestNothingToDraw(t *testing.T) {
	empty := &Chart{Title: "empty", Series: []Series{{Points: []Point{{0, 0}}}}}
	if err := empty.WriteSVG(io.Discard); err == nil {
		t.Error("a picture of nothing is drawn")
	}
	one := &Chart{Title: "one", Format: func(float64) string { return "" }, Series: []Series{{Name: "x", Points: []Point{{32, 10}}}}}
	if err := one.WriteSVG(io.Discard); err != nil {
		t.Error(err)
	}
}
