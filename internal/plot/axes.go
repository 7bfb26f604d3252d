package plot

import (
	"fmt"
	"html/template"
	"math"
	"strconv"
	"strings"
)

// The layout of a plot, in units of SVG.
const (
	width, height         = 860.0, 260.0
	left, right           = 76.0, 16.0
	above, below          = 34.0, 38.0
	plotWidth, plotHeight = width - left - right, height - above - below
)

// colors are told apart by people who see fewer, too (Okabe and Ito).
var colors = []string{"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000", "#8a8a00"}

// drawing is an SVG in the making.
type drawing struct{ strings.Builder }

func newDrawing(title string, tall float64) *drawing {
	d := new(drawing)
	fmt.Fprintf(d, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %.0f %.0f" role="img" aria-label="%s">`, width, tall, text(title))
	d.label(left, 16, "start", "title", title)
	return d
}

func (d *drawing) end() template.HTML {
	d.WriteString("</svg>")
	return template.HTML(d.String()) // made of numbers and of what text has escaped
}

func (d *drawing) label(x, y float64, anchor, class, s string) {
	fmt.Fprintf(d, `<text x="%.1f" y="%.1f" text-anchor="%s" class="%s">%s</text>`, x, y, anchor, class, text(s))
}

func (d *drawing) line(x1, y1, x2, y2 float64, color string) {
	fmt.Fprintf(d, `<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" stroke="%s"/>`, x1, y1, x2, y2, color)
}

func (d *drawing) rect(x, y, w, h float64, color string, opacity float64, hint string) {
	fmt.Fprintf(d, `<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" fill="%s" fill-opacity="%.2f"><title>%s</title></rect>`, x, y, w, h, color, opacity, text(hint))
}

// steps are round numbers from 0 to at least top, at most six.
func steps(top float64) []float64 {
	if !(top > 0) || math.IsInf(top, 0) {
		top = 1
	}
	const most = 5
	step := math.Pow(10, math.Floor(math.Log10(top/most)))
	for _, f := range []float64{1, 2, 5, 10} {
		if step*f*most >= top {
			step *= f
			break
		}
	}
	var all []float64
	for k := 0; ; k++ {
		all = append(all, float64(k)*step)
		if all[k] >= top {
			return all
		}
	}
}

// short is a number with a prefix of the SI.
func short(v float64) string {
	for _, p := range []struct {
		least float64
		sign  string
	}{{1e12, "T"}, {1e9, "G"}, {1e6, "M"}, {1e3, "k"}} {
		if v >= p.least {
			return strconv.FormatFloat(v/p.least, 'g', 4, 64) + p.sign
		}
	}
	return strconv.FormatFloat(v, 'g', 3, 64)
}

// scale draws the y axis from 0, and returns where it ends.
func (d *drawing) scale(top float64, unit string) float64 {
	all := steps(top)
	end := all[len(all)-1]
	for _, v := range all {
		y := above + plotHeight*(1-v/end)
		d.line(left, y, width-right, y, "#e4e7eb")
		d.label(left-8, y+4, "end", "y", short(v))
	}
	d.label(left-8, 16, "end", "unit", unit)
	return end
}

// seconds draws the x axis from 0 to span.
func (d *drawing) seconds(span float64) {
	all := steps(span)
	for _, v := range all {
		if v > span {
			break
		}
		x := left + plotWidth*v/span
		d.line(x, above+plotHeight, x, above+plotHeight+4, "#666d78")
		d.label(x, above+plotHeight+17, "middle", "x", short(v)+" s")
	}
}

// finite reports whether v can be drawn.
func finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }
