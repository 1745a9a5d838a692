// Package chart draws curves over epochs, as an SVG text or a PNG image: losses
// against the axis on the left, a percentage against the one on the right.
package chart

import (
	"math"
	"strconv"
)

// The size of a chart, in pixels, and what is left around its curves.
const (
	width, height             = 860, 480
	left, right, top, bottom  = 70, 70, 60, 50
	fontSize                  = 14.0
	ticksWanted               = 6
	dotsUpTo                  = 60 // points of a curve that are marked each
	axisColor, gridColor, ink = 0x888888, 0xe4e4e4, 0x333333
)

// Axis is the side that a curve is read on.
type Axis int

// The axes.
const (
	Left Axis = iota
	Right
)

// Curve is a line through points; X ascends. A Y that is no finite number is
// left out.
type Curve struct {
	Name string
	Axis Axis
	X, Y []float64
}

// Chart is what is drawn.
type Chart struct {
	Title       string
	XName       string
	Left, Right string // what the axes show
	Curves      []Curve
}

// point is a place on the canvas, in pixels from the top left.
type point struct{ x, y float64 }

// anchor is the part of a text that is at its place.
type anchor int

const (
	atStart anchor = iota
	atMiddle
	atEnd
)

// canvas is what a chart is drawn on. Colours are 0xRRGGBB.
type canvas interface {
	line(color uint32, thickness float64, points ...point)
	dot(color uint32, radius float64, at point)
	text(color uint32, at point, where anchor, s string)
}

// palette has a colour for each curve, told apart by the colour-blind too.
func palette(i int) uint32 {
	colors := [...]uint32{0x0072b2, 0xd55e00, 0x009e73, 0xcc79a7, 0xe69f00, 0x56b4e9}
	return colors[i%len(colors)]
}

// draw draws a chart.
func (c Chart) draw(on canvas) {
	x := scaleOf(c.Curves, func(u Curve) []float64 { return u.X }, width-right, left)
	x.lo, x.hi = min(x.lo, 1), max(x.hi, x.lo+1)
	l := scaleOf(c.on(Left), func(u Curve) []float64 { return u.Y }, top, height-bottom)
	r := scaleOf(c.on(Right), func(u Curve) []float64 { return u.Y }, top, height-bottom)
	on.text(ink, point{left, 24}, atStart, c.Title)
	for _, v := range l.ticks() {
		on.line(gridColor, 1, point{left, l.at(v)}, point{width - right, l.at(v)})
		on.text(ink, point{left - 8, l.at(v) + 5}, atEnd, number(v))
	}
	if len(c.on(Right)) > 0 {
		for _, v := range r.ticks() {
			on.line(axisColor, 1, point{width - right, r.at(v)}, point{width - right + 5, r.at(v)})
			on.text(ink, point{width - right + 8, r.at(v) + 5}, atStart, number(v))
		}
		on.text(ink, point{width - 8, top - 12}, atEnd, c.Right)
	}
	for _, v := range x.ticks() {
		if v == math.Trunc(v) {
			on.line(axisColor, 1, point{x.at(v), height - bottom}, point{x.at(v), height - bottom + 5})
			on.text(ink, point{x.at(v), height - bottom + 21}, atMiddle, number(v))
		}
	}
	on.text(ink, point{8, top - 12}, atStart, c.Left)
	on.text(ink, point{(left + width - right) / 2, height - 10}, atMiddle, c.XName)
	on.line(axisColor, 1, point{left, top}, point{left, height - bottom}, point{width - right, height - bottom}, point{width - right, top})
	c.drawCurves(on, x, l, r)
}

func (c Chart) drawCurves(on canvas, x, l, r scale) {
	legend := float64(left) + 70
	for i, u := range c.Curves {
		y := l
		if u.Axis == Right {
			y = r
		}
		var points []point
		for j, v := range u.Y {
			if finite(v) {
				points = append(points, point{x.at(u.X[j]), y.at(v)})
			}
		}
		on.line(palette(i), 2, points...)
		if len(points) <= dotsUpTo {
			for _, p := range points {
				on.dot(palette(i), 3, p)
			}
		}
		on.line(palette(i), 3, point{legend, top - 17}, point{legend + 20, top - 17})
		on.text(ink, point{legend + 26, top - 12}, atStart, u.Name)
		legend += 50 + 8*float64(len(u.Name))
	}
}

func (c Chart) on(a Axis) []Curve {
	var on []Curve
	for _, u := range c.Curves {
		if u.Axis == a {
			on = append(on, u)
		}
	}
	return on
}

// scale leads from values in [lo, hi] to pixels in [near, far].
type scale struct {
	lo, hi    float64
	far, near float64
}

func scaleOf(curves []Curve, values func(Curve) []float64, far, near float64) scale {
	s := scale{lo: math.Inf(1), hi: math.Inf(-1), far: far, near: near}
	for _, u := range curves {
		for _, v := range values(u) {
			if finite(v) {
				s.lo, s.hi = min(s.lo, v), max(s.hi, v)
			}
		}
	}
	switch {
	case s.lo > s.hi:
		s.lo, s.hi = 0, 1
	case s.hi-s.lo <= 1e-9*max(math.Abs(s.lo), math.Abs(s.hi)): // numbers have no room for ticks between them
		s.lo, s.hi = s.lo-max(1, math.Abs(s.lo))/2, s.hi+max(1, math.Abs(s.hi))/2
	}
	return s
}

func (s scale) at(v float64) float64 { return s.near + (v-s.lo)/(s.hi-s.lo)*(s.far-s.near) }

// ticks are round values in [lo, hi]: 1, 2 or 5 times a power of ten apart.
func (s scale) ticks() []float64 {
	rough := (s.hi - s.lo) / ticksWanted
	power := math.Pow(10, math.Floor(math.Log10(rough)))
	step := 10 * power
	for _, m := range []float64{1, 2, 5} {
		if m*power >= rough {
			step = m * power
			break
		}
	}
	var ticks []float64
	for n := math.Ceil(s.lo / step); n*step <= s.hi && len(ticks) <= 2*ticksWanted; n++ {
		ticks = append(ticks, n*step)
	}
	return ticks
}

func number(v float64) string { return strconv.FormatFloat(v, 'g', 6, 64) }

// finite reports whether a value can be drawn: two of them have a distance.
func finite(v float64) bool { return math.Abs(v) <= math.MaxFloat64/4 }
