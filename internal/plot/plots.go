package plot

import (
	"fmt"
	"html/template"
	"math"
	"strings"
	"time"
)

// Series is a line of Lines.
type Series struct {
	Name   string
	Values []float64 // one for each of At
}

// Lines are values over time.
type Lines struct {
	Title, Unit string
	At          []float64 // seconds, ascending
	Series      []Series
}

func (l Lines) svg() template.HTML {
	d := newDrawing(l.Title, height)
	top, span := 0.0, 0.0
	for _, s := range l.Series {
		for _, v := range s.Values {
			if finite(v) {
				top = max(top, v)
			}
		}
	}
	if n := len(l.At); n > 0 {
		span = l.At[n-1]
	}
	span = max(span, 1e-3)
	end := d.scale(top, l.Unit)
	d.seconds(span)
	for k, s := range l.Series {
		color := colors[k%len(colors)]
		var points []string
		for i, v := range s.Values {
			if i < len(l.At) && finite(v) {
				points = append(points, fmt.Sprintf("%.1f,%.1f", left+plotWidth*l.At[i]/span, above+plotHeight*(1-max(v, 0)/end)))
			}
		}
		fmt.Fprintf(d, `<polyline fill="none" stroke="%s" stroke-width="1.8" points="%s"><title>%s</title></polyline>`, color, strings.Join(points, " "), text(s.Name))
	}
	d.legend(l.Series)
	return d.end()
}

// legend names the series, from the right.
func (d *drawing) legend(all []Series) {
	x := width - right
	for k := len(all) - 1; k >= 0; k-- {
		const char, gap = 6.6, 26
		d.label(x, 16, "end", "legend", all[k].Name)
		x -= char * float64(len([]rune(all[k].Name)))
		d.rect(x-14, 7, 10, 10, colors[k%len(colors)], 1, all[k].Name)
		x -= gap
	}
}

// Bar is one of Bars.
type Bar struct {
	Name  string
	Value float64
}

// Bars are values side by side, one below the other.
type Bars struct {
	Title, Unit string
	Bars        []Bar
}

func (b Bars) svg() template.HTML {
	const row, names = 22.0, 270.0
	d := newDrawing(b.Title+", "+b.Unit, above+row*float64(len(b.Bars))+8)
	top := 0.0
	for _, bar := range b.Bars {
		if finite(bar.Value) {
			top = max(top, bar.Value)
		}
	}
	for k, bar := range b.Bars {
		if !finite(bar.Value) {
			continue
		}
		y := above + row*float64(k)
		long := (width - right - names - 60) * max(bar.Value, 0) / max(top, math.SmallestNonzeroFloat64)
		d.label(names-8, y+12, "end", "name", bar.Name)
		d.rect(names, y, long, row-6, colors[0], 1, bar.Name)
		d.label(names+long+6, y+12, "start", "value", short(bar.Value))
	}
	return d.end()
}

// Heat is how often something took how long, over time.
type Heat struct {
	Title string
	At    []float64 // seconds, ascending: the ends of the columns
	// Columns have counts by the duration up to which they are.
	Columns []map[time.Duration]uint64
}

// The rows of Heat: two for each power of two, from shortest on.
const (
	shortest   = time.Microsecond
	rowsDouble = 2
)

func heatRow(d time.Duration) int {
	if d <= shortest {
		return 0
	}
	return int(math.Ceil(rowsDouble*math.Log2(float64(d)/float64(shortest)) - 1e-9))
}

func (h Heat) svg() template.HTML {
	d := newDrawing(h.Title, height)
	low, high, most, span := math.MaxInt, 0, uint64(0), 1e-3
	columns := make([]map[int]uint64, len(h.Columns))
	for k, c := range h.Columns {
		columns[k] = make(map[int]uint64)
		for took, n := range c {
			row := heatRow(took)
			columns[k][row] += n
			low, high, most = min(low, row), max(high, row), max(most, columns[k][row])
		}
		if k < len(h.At) {
			span = max(span, h.At[k])
		}
	}
	if most == 0 {
		low, high = 0, 0
	}
	rows := float64(high - low + 1)
	each := plotHeight / rows
	begin := 0.0
	for k, c := range columns {
		if k >= len(h.At) {
			break
		}
		x, wide := left+plotWidth*begin/span, plotWidth*(h.At[k]-begin)/span
		begin = h.At[k]
		for row, n := range c {
			if n == 0 {
				continue
			}
			// A logarithm: the rare ones are those that are looked for.
			shade := 0.15 + 0.85*math.Log1p(float64(n))/math.Log1p(float64(most))
			d.rect(x, above+plotHeight-each*float64(row-low+1), max(wide, 0.5), each, "#b3261e", shade, fmt.Sprintf("%d up to %v", n, durationOf(row)))
		}
	}
	every := max(1, int(math.Ceil(rows/9)))
	for row := low; row <= high; row += every {
		d.label(left-8, above+plotHeight-each*(float64(row-low)+0.5)+4, "end", "y", durationOf(row).String())
	}
	d.line(left, above+plotHeight, width-right, above+plotHeight, "#666d78")
	d.seconds(span)
	return d.end()
}

// durationOf is the longest duration of a row, with three digits.
func durationOf(row int) time.Duration {
	v := float64(shortest) * math.Pow(2, float64(row)/rowsDouble)
	digit := math.Pow(10, math.Floor(math.Log10(v))-2)
	return time.Duration(math.Round(v/digit) * digit)
}
