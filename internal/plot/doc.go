// Package plot writes reports for people as one HTML file: headings, notes, tables, and
// plots as SVG.
//
// It owns the layout, and that the file needs nothing else: no script, no style and no
// picture from elsewhere, which a content security policy in it also forbids. It
// refuses to know what is plotted. All text is escaped, and made plain first.
//
// Invariants: what is not a finite number is left out of a plot. No file grows beyond
// what Page was given; callers bound that.
//
// No goroutines, no locks.
package plot
