package chart

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"io"
)

// SVG writes the chart as an SVG text that needs nothing else.
func (c Chart) SVG(w io.Writer) error {
	s := &svg{}
	fmt.Fprintf(&s.b, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" font-family="sans-serif" font-size="%g">`+"\n",
		width, height, width, height, fontSize)
	fmt.Fprintf(&s.b, `<rect width="%d" height="%d" fill="#ffffff"/>`+"\n", width, height)
	c.draw(s)
	s.b.WriteString("</svg>\n")
	_, err := w.Write(s.b.Bytes())
	return err
}

type svg struct{ b bytes.Buffer }

func (s *svg) line(color uint32, thickness float64, points ...point) {
	if len(points) < 2 {
		return
	}
	fmt.Fprintf(&s.b, `<polyline fill="none" stroke="#%06x" stroke-width="%g" points="`, color, thickness)
	for i, p := range points {
		if i > 0 {
			s.b.WriteByte(' ')
		}
		fmt.Fprintf(&s.b, "%.1f,%.1f", p.x, p.y)
	}
	s.b.WriteString(`"/>` + "\n")
}

func (s *svg) dot(color uint32, radius float64, at point) {
	fmt.Fprintf(&s.b, `<circle fill="#%06x" r="%g" cx="%.1f" cy="%.1f"/>`+"\n", color, radius, at.x, at.y)
}

func (s *svg) text(color uint32, at point, where anchor, text string) {
	anchors := [...]string{atStart: "start", atMiddle: "middle", atEnd: "end"}
	fmt.Fprintf(&s.b, `<text fill="#%06x" x="%.1f" y="%.1f" text-anchor="%s">`, color, at.x, at.y, anchors[where])
	_ = xml.EscapeText(&s.b, []byte(text)) // a buffer takes all
	s.b.WriteString("</text>\n")
}
