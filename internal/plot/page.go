package plot

import (
	"html/template"
	"io"
	"time"

	"github.com/rdmafs/rdmafs/internal/plain"
)

// Page is a report.
type Page struct {
	Title    string
	Made     time.Time
	Sections []Section
}

// Section is a part of a report with a heading.
type Section struct {
	Heading string
	Notes   []string
	Plots   []Plot
	Tables  []Table
}

// Plot is anything that is drawn.
type Plot interface{ svg() template.HTML }

// Table has a row of headings. In all columns but the first text stands at the right.
type Table struct {
	Head []string
	Rows [][]string
}

// text is s as it is shown.
func text(s string) string { return template.HTMLEscapeString(plain.Text(s)) }

var page = template.Must(template.New("page").Funcs(template.FuncMap{
	"plain": plain.Text,
	"svg":   func(p Plot) template.HTML { return p.svg() },
	"time":  func(t time.Time) string { return t.Format(time.RFC1123Z) },
}).Parse(`<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{{plain .Title}}</title>
<style>
body { font: 15px/1.45 system-ui, sans-serif; color: #1b1f24; background: #fff; max-width: 60em; margin: 2em auto; padding: 0 1em }
h1 { font-size: 1.5em } h2 { font-size: 1.2em; border-bottom: 1px solid #c8ccd2; padding-bottom: .2em; margin-top: 2em }
svg { display: block; width: 100%; height: auto; margin: 1em 0 }
svg text { font: 12px system-ui, sans-serif; fill: #444b55 } svg .title { font-weight: 600; fill: #1b1f24 }
table { border-collapse: collapse; margin: 1em 0 } td, th { padding: .2em .8em; text-align: right; border-bottom: 1px solid #e4e7eb }
td:first-child, th:first-child { text-align: left; padding-left: 0 }
footer { color: #666d78; margin-top: 3em }
</style>
</head>
<body>
<h1>{{plain .Title}}</h1>
{{range .Sections}}<section>
<h2>{{plain .Heading}}</h2>
{{range .Notes}}<p>{{plain .}}</p>
{{end}}{{range .Plots}}{{svg .}}
{{end}}{{range .Tables}}<table>
<thead><tr>{{range .Head}}<th>{{plain .}}</th>{{end}}</tr></thead>
<tbody>
{{range .Rows}}<tr>{{range .}}<td>{{plain .}}</td>{{end}}</tr>
{{end}}</tbody>
</table>
{{end}}</section>
{{end}}<footer>rdmafs, {{time .Made}}</footer>
</body>
</html>
`))

// Write writes the page.
func (p *Page) Write(to io.Writer) error { return page.Execute(to, p) }
