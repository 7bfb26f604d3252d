package options

import (
	"fmt"
	"slices"
	"strings"
)

// Usage is the option as it is typed: "rsize=N".
func (o *Option) Usage() string {
	if o.Value == "" {
		return o.Name
	}
	return o.Name + "=" + o.Value
}

// The layout of Help, in columns.
const (
	helpIndent = 22
	helpWidth  = 90
)

// Help is the text of "rdmafs mount --help".
func Help() string {
	var b strings.Builder
	b.WriteString("Mount options, behind -o with commas between, as in nfs(5) where they have the same name:\n")
	for at := 0; at < len(Table); {
		o := &Table[at]
		if o.Kind != Effective && o.Kind != Inert {
			at++
			continue
		}
		var usage, defaults []string
		for ; at < len(Table) && Table[at].Meaning == o.Meaning; at++ {
			usage = append(usage, Table[at].Usage())
			defaults = append(defaults, Table[at].Default)
		}
		meaning := o.Meaning
		switch {
		case o.Kind == Inert || o.Default == "" || o.Default == o.Value:
		case o.Value == "":
			meaning += " (default)"
		default:
			meaning += " (default: " + strings.Join(slices.Compact(defaults), " ") + ")"
		}
		writeRow(&b, strings.Join(usage, ", "), meaning)
	}
	fmt.Fprint(&b, wrap(fmt.Sprintf("Words for mount(8) and fstab(5) (%s, x-*) are ignored; %s are handed to the mount; %s are refused.",
		names(Ignored), names(Passed), names(Refused)), helpWidth, ""))
	return b.String()
}

// names lists the options of a kind.
func names(k Kind) string {
	var all []string
	for _, o := range Table {
		if o.Kind == k {
			all = append(all, o.Name)
		}
	}
	return strings.Join(all, ", ")
}

// writeRow writes usage and meaning in two columns, below each other where the
// first is too narrow.
func writeRow(b *strings.Builder, usage, meaning string) {
	indent := strings.Repeat(" ", helpIndent)
	text := wrap(meaning, helpWidth-helpIndent, indent)
	if len(usage) > helpIndent-4 {
		fmt.Fprintf(b, "%s\n%s\n", wrap(usage, helpWidth-2, "  "), text)
		return
	}
	fmt.Fprintf(b, "  %-*s%s\n", helpIndent-2, usage, strings.TrimPrefix(text, indent))
}

// wrap breaks text into lines of at most width characters behind indent.
func wrap(text string, width int, indent string) string {
	var lines []string
	line := ""
	for _, word := range strings.Fields(text) {
		switch {
		case line == "":
			line = word
		case len(line)+1+len(word) > width:
			lines = append(lines, indent+line)
			line = word
		default:
			line += " " + word
		}
	}
	return strings.Join(append(lines, indent+line), "\n")
}
