package chart_test

import (
	"bytes"
	"encoding/xml"
	"image/png"
	"io"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-ml/troupe/internal/chart"
)

func curves() chart.Chart {
	return chart.Chart{
		Title: `mlp on "a&b" <x>`, XName: "epoch", Left: "loss", Right: "%",
		Curves: []chart.Curve{
			{Name: "training loss", X: []float64{1, 2, 3}, Y: []float64{2, math.NaN(), 0.5}},
			{Name: "accuracy", Axis: chart.Right, X: []float64{1, 2, 3}, Y: []float64{20, 60, 90}},
		},
	}
}

func TestSVGIsXMLWithEveryPoint(t *testing.T) {
	var b bytes.Buffer
	require.NoError(t, curves().SVG(&b))
	dots, texts := 0, []string{}
	for d := xml.NewDecoder(bytes.NewReader(b.Bytes())); ; {
		token, err := d.Token()
		if err == io.EOF {
			break
		}
		require.NoError(t, err)
		switch e := token.(type) {
		case xml.StartElement:
			if e.Name.Local == "circle" {
				dots++
			}
		case xml.CharData:
			texts = append(texts, string(e))
		}
	}
	require.Equal(t, 5, dots, "two losses that are numbers, three accuracies")
	require.Subset(t, texts, []string{`mlp on "a&b" <x>`, "epoch", "loss", "%", "training loss", "accuracy", "1", "2", "3", "0.5", "1.5", "80"})
	require.Contains(t, b.String(), `points="70.0,60.0 790.0,430.0"`, "the loss falls from the top left to the bottom right")
}

func TestPNGHasTheCurvesInTheirColours(t *testing.T) {
	var b bytes.Buffer
	require.NoError(t, curves().PNG(&b))
	picture, err := png.Decode(&b)
	require.NoError(t, err)
	seen := map[[3]uint32]int{}
	for y := range picture.Bounds().Dy() {
		for x := range picture.Bounds().Dx() {
			r, g, b, _ := picture.At(x, y).RGBA()
			seen[[3]uint32{r >> 8, g >> 8, b >> 8}]++
		}
	}
	require.Greater(t, seen[[3]uint32{0x00, 0x72, 0xb2}], 500, "the first curve")
	require.Greater(t, seen[[3]uint32{0xd5, 0x5e, 0x00}], 500, "the second curve")
	require.Greater(t, seen[[3]uint32{0xff, 0xff, 0xff}], 200_000, "paper")
}

// Whatever the numbers, a chart comes out, of a bounded size.
func TestOddCurves(t *testing.T) {
	for name, u := range map[string]chart.Curve{
		"none":       {},
		"one point":  {X: []float64{1}, Y: []float64{0}},
		"constant":   {X: []float64{1, 2}, Y: []float64{5, 5}},
		"huge":       {X: []float64{1, 2}, Y: []float64{-1e300, 1e300}},
		"too huge":   {X: []float64{1, 2, 3}, Y: []float64{-math.MaxFloat64, math.MaxFloat64, 1}},
		"tiny":       {X: []float64{1, 2}, Y: []float64{1e-300, 2e-300}},
		"no numbers": {X: []float64{1, 2}, Y: []float64{math.NaN(), math.Inf(1)}},
		"far":        {X: []float64{1e6, 1e6 + 1}, Y: []float64{1, 2}},
		"a hair":     {X: []float64{1, 2}, Y: []float64{1, math.Nextafter(1, 2)}},
	} {
		t.Run(name, func(t *testing.T) {
			c := chart.Chart{Curves: []chart.Curve{u}}
			var text, picture bytes.Buffer
			require.NoError(t, c.SVG(&text))
			require.NoError(t, c.PNG(&picture))
			require.Less(t, text.Len(), 20_000)
			require.NotContains(t, strings.ReplaceAll(text.String(), "font-family", ""), "NaN")
			require.NotContains(t, text.String(), "Inf")
		})
	}
}
