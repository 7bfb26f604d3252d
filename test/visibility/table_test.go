package visibility

import (
	"os"
	"slices"
	"testing"
)

// TestDocument: each table that users read has a row for each situation, and a cell for each pair.
func TestDocument(t *testing.T) {
	text, err := os.ReadFile("../../docs/semantics.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, heading := range []string{Heading, Heading4} {
		table := Find(string(text), heading)
		if len(table) != len(situations)+1 {
			t.Errorf("%s: %d rows for %d situations", heading, len(table), len(situations))
			continue
		}
		for i, row := range table {
			if len(row) != 5 || slices.Contains(row, "") {
				t.Errorf("row %d is %q", i, row)
			}
			if i > 0 && row[0] != situations[i-1].name {
				t.Errorf("row %d is %q, the situation %q", i, row[0], situations[i-1].name)
			}
		}
	}
}

// TestSooner: of words that say when, the earlier one is sooner.
func TestSooner(t *testing.T) {
	for _, c := range []struct {
		cell, than string
		want       bool
	}{{AtOnce, AtOpen, true}, {AtOpen, Expired, true}, {AtOpen, AtOpen, false}, {Expired, AtOnce, false}, {AtOnce, "old", false}, {"old", Expired, false}} {
		if got := Sooner(c.cell, c.than); got != c.want {
			t.Errorf("%q than %q: %v", c.cell, c.than, got)
		}
	}
}

// TestTable: a table is found in a document, equals itself, and each cell that differs is named.
func TestTable(t *testing.T) {
	table := Table{{"who", "a", "b"}, {"x", "1", "2"}, {"y", "3", "4"}}
	found := Find("| who else | a |\n|---|---|\n| x | 9 |\n\ntext\n\n"+table.String()+"\nmore | text\n", "who")
	if d := Differences(found, table); d != nil {
		t.Errorf("%q in %q", d, found)
	}
	if got := Find(table.String(), "nobody"); got != nil {
		t.Errorf("found %q", got)
	}
	for _, c := range []struct {
		other Table
		want  []string
	}{
		{Table{{"who", "a", "b"}, {"x", "1", "5"}, {"y", "3", "4"}}, []string{`x; b: "2", want "5"`}},
		{table[:2], []string{"3 rows, want 2"}},
		{Table{{"who", "a", "b"}, {"z", "1", "2"}, {"y", "3", "4"}}, []string{`row 1 is ["x" "1" "2"], want ["z" "1" "2"]`}},
		{Table{{"who", "a", "c"}, {"x", "1", "2"}, {"y", "3", "4"}}, []string{`row 0 is ["who" "a" "b"], want ["who" "a" "c"]`}},
	} {
		if got := Differences(table, c.other); !slices.Equal(got, c.want) {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}
