package chart

import (
	"fmt"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"io"
	"math"

	"golang.org/x/image/font"
	"golang.org/x/image/font/gofont/goregular"
	"golang.org/x/image/font/opentype"
	"golang.org/x/image/math/fixed"
	"golang.org/x/image/vector"
)

// PNG writes the chart as an image.
func (c Chart) PNG(w io.Writer) error {
	parsed, err := opentype.Parse(goregular.TTF)
	if err != nil {
		return fmt.Errorf("the font: %w", err)
	}
	face, err := opentype.NewFace(parsed, &opentype.FaceOptions{Size: fontSize, DPI: 72, Hinting: font.HintingFull})
	if err != nil {
		return fmt.Errorf("the font: %w", err)
	}
	defer face.Close()
	p := &pixels{image: image.NewRGBA(image.Rect(0, 0, width, height)), face: face}
	draw.Draw(p.image, p.image.Bounds(), image.White, image.Point{}, draw.Src)
	c.draw(p)
	return png.Encode(w, p.image)
}

type pixels struct {
	image *image.RGBA
	face  font.Face
}

func uniform(c uint32) *image.Uniform {
	return image.NewUniform(color.RGBA{uint8(c >> 16), uint8(c >> 8), uint8(c), 0xff})
}

func (p *pixels) line(color uint32, thickness float64, points ...point) {
	for i := 1; i < len(points); i++ {
		a, b := points[i-1], points[i]
		length := math.Hypot(b.x-a.x, b.y-a.y)
		if length == 0 {
			continue
		}
		// Half the thickness to either side, and beyond the ends, where the next
		// piece begins.
		dx, dy := (b.x-a.x)/length*thickness/2, (b.y-a.y)/length*thickness/2
		a, b = point{a.x - dx, a.y - dy}, point{b.x + dx, b.y + dy}
		p.fill(color, point{a.x - dy, a.y + dx}, point{a.x + dy, a.y - dx}, point{b.x + dy, b.y - dx}, point{b.x - dy, b.y + dx})
	}
}

func (p *pixels) dot(color uint32, radius float64, at point) {
	var circle []point
	for i := range 16 {
		sin, cos := math.Sincos(2 * math.Pi * float64(i) / 16)
		circle = append(circle, point{at.x + radius*cos, at.y + radius*sin})
	}
	p.fill(color, circle...)
}

// fill fills a polygon. It rasterizes the pixels around it only.
func (p *pixels) fill(color uint32, corners ...point) {
	box := image.Rectangle{Min: image.Pt(width, height)}
	for _, c := range corners {
		box.Min.X, box.Min.Y = min(box.Min.X, int(c.x)-1), min(box.Min.Y, int(c.y)-1)
		box.Max.X, box.Max.Y = max(box.Max.X, int(c.x)+2), max(box.Max.Y, int(c.y)+2)
	}
	z := vector.NewRasterizer(box.Dx(), box.Dy())
	for i, c := range corners {
		x, y := float32(c.x-float64(box.Min.X)), float32(c.y-float64(box.Min.Y))
		if i == 0 {
			z.MoveTo(x, y)
		} else {
			z.LineTo(x, y)
		}
	}
	z.ClosePath()
	z.Draw(p.image, box, uniform(color), image.Point{})
}

func (p *pixels) text(color uint32, at point, where anchor, s string) {
	d := font.Drawer{Dst: p.image, Src: uniform(color), Face: p.face}
	x := fixed.Int26_6(at.x * 64)
	switch where {
	case atMiddle:
		x -= d.MeasureString(s) / 2
	case atEnd:
		x -= d.MeasureString(s)
	case atStart:
	}
	d.Dot = fixed.Point26_6{X: x, Y: fixed.Int26_6(at.y * 64)}
	d.DrawString(s)
}
