package plot

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"image"
	"image/png"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const hostile = "</title><script>alert(1)</script>\x1b[2J\u202e\"'&<"

// everything is a page with one of each, whose texts are ill-willed.
func everything() *Page {
	return &Page{Title: hostile, Made: time.Unix(0, 0), Sections: []Section{
		{Heading: "empty", Plots: []Plot{Lines{}, Bars{}, Heat{}}, Tables: []Table{{}}},
		{
			Heading: hostile, Notes: []string{hostile},
			Plots: []Plot{
				Lines{Title: hostile, Unit: hostile, At: []float64{1, 2, 3}, Series: []Series{
					{hostile, []float64{1, math.NaN(), 3, 4}}, {"b", []float64{math.Inf(1), 0, -5}}}},
				Bars{Title: hostile, Unit: hostile, Bars: []Bar{{hostile, 10}, {"none", math.NaN()}, {"less", -1}}},
				Heat{Title: hostile, At: []float64{1, 2}, Columns: []map[time.Duration]uint64{
					{time.Millisecond: 5, 0: 1}, {time.Hour: 1, math.MaxInt64: math.MaxUint64}, {time.Second: 1}}},
			},
			Tables: []Table{{Head: []string{hostile, "n"}, Rows: [][]string{{hostile, "1"}}}},
		},
	}}
}

// TestPage: the file is well formed, has nothing of what texts say but text, and needs nothing
// from elsewhere.
func TestPage(t *testing.T) {
	var b bytes.Buffer
	if err := everything().Write(&b); err != nil {
		t.Fatal(err)
	}
	out := b.String()
	for _, bad := range []string{"<script", "\x1b", "\u202e", "NaN", "Inf", "src=", "href=", "url(", "@import"} {
		if strings.Contains(out, bad) {
			t.Errorf("the page has %q", bad)
		}
	}
	elements := map[string]int{}
	d := xml.NewDecoder(strings.NewReader(out))
	d.Strict, d.AutoClose = false, []string{"meta"}
	for {
		tok, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if s, ok := tok.(xml.StartElement); ok {
			elements[s.Name.Local]++
		}
	}
	if elements["svg"] != 6 || elements["polyline"] != 2 || elements["table"] != 2 || elements["section"] != 2 {
		t.Errorf("%v", elements)
	}
}

func TestSteps(t *testing.T) {
	for _, c := range []struct{ top, end float64 }{{0, 1}, {1, 1}, {7, 8}, {99, 100}, {101, 150}, {3.2e9, 4e9}, {math.NaN(), 1}, {math.Inf(1), 1}, {1e-9, 1e-9}} {
		all := steps(c.top)
		if end := all[len(all)-1]; math.Abs(end/c.end-1) > 1e-6 && end < c.top || len(all) > 7 {
			t.Errorf("%v: %v", c.top, all)
		}
	}
	for v, want := range map[float64]string{0: "0", 12: "12", 1500: "1.5k", 2.5e9: "2.5G", 0.125: "0.125"} {
		if got := short(v); got != want {
			t.Errorf("%v: %s", v, got)
		}
	}
}

func TestHeatRows(t *testing.T) {
	last := 0
	for d := shortest; d < time.Hour; d = d * 9 / 8 {
		row := heatRow(d)
		if row < last || durationOf(row) < d*99/100 {
			t.Errorf("%v is in row %d, up to %v", d, row, durationOf(row))
		}
		last = row
	}
}

// browser is a real one without a window.
func browser(t *testing.T) string {
	t.Helper()
	for _, name := range []string{"chromium-headless-shell", "chromium", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	t.Skip("needs a browser (package chromium-headless-shell)")
	return ""
}

// TestBrowser: a browser shows the page, complains of nothing and runs nothing.
func TestBrowser(t *testing.T) {
	bin, dir := browser(t), t.TempDir()
	file, shot := filepath.Join(dir, "page.html"), filepath.Join(dir, "page.png")
	f, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(everything().Write(f), f.Close()); err != nil {
		t.Fatal(err)
	}
	run := func(args ...string) (stdout, stderr string) {
		t.Helper()
		cmd := exec.Command(bin, append([]string{"--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run",
			"--user-data-dir=" + filepath.Join(dir, "profile"), "--enable-logging=stderr", "--window-size=1000,1800", "--hide-scrollbars"}, args...)...)
		var out, said bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &said
		if err := cmd.Run(); err != nil {
			t.Fatalf("%v: %s", err, said.String())
		}
		return out.String(), said.String()
	}
	dom, said := run("--dump-dom", "file://"+file)
	for what, n := range map[string]int{"<svg": 6, "<polyline": 2, "<script": 0, "<table": 2} {
		if got := strings.Count(dom, what); got != n {
			t.Errorf("the browser has %d of %s, want %d", got, what, n)
		}
	}
	for _, bad := range []string{"CONSOLE", "Refused to", "ERROR:csp"} {
		if strings.Contains(said, bad) {
			t.Errorf("the browser said: %s", said)
		}
	}
	run("--screenshot="+shot, "file://"+file)
	p, err := os.Open(shot)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	img, err := png.Decode(p)
	if err != nil {
		t.Fatal(err)
	}
	for _, color := range colors[:2] {
		if n := count(img, color); n < 20 {
			t.Errorf("%d pixels of color %s", n, color)
		}
	}
}

// count is the number of pixels of a color.
func count(img image.Image, color string) (n int) {
	b := img.Bounds()
	for y := b.Min.Y; y < b.Max.Y; y++ {
		for x := b.Min.X; x < b.Max.X; x++ {
			r, g, bl, _ := img.At(x, y).RGBA()
			if fmt.Sprintf("#%02x%02x%02x", r>>8, g>>8, bl>>8) == color {
				n++
			}
		}
	}
	return n
}
