package visibility

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// What a cell of the table says of a change: when B sees it.
const (
	AtOnce  = "at once"
	AtOpen  = "at open"
	Expired = "expired"
)

// Heading and Heading4 are the first cells of the tables of NFS version 3 and 4.2.
const (
	Heading  = "A's change, and how B looks"
	Heading4 = "A's change, and how B looks (4.2)"
)

// Sooner reports whether a cell says that B sees a change sooner than another cell has it.
func Sooner(cell, than string) bool {
	when := []string{AtOnce, AtOpen, Expired}
	i, j := slices.Index(when, cell), slices.Index(when, than)
	return i >= 0 && i < j
}

// Client is a client of the export, as directories on mounts of its own, all of them the same
// directory of the server.
type Client struct {
	Name string
	// A makes the changes. Long looks, with attribute timeouts of many minutes, and so does
	// Short, with timeouts of a second.
	A, Long, Short string
	// One: to the server its mounts are one client, which no delegation is recalled from for its own changes. It is
	// no other machine to itself: such a cell is Same.
	One bool
}

// Same is the cell of a client that is one with itself.
const Same = "–"

// Config says where the script runs.
type Config struct {
	Heading string
	Clients []Client
	// Backing is the same directory on the server.
	Backing string
}

// Run runs the script with each client as A and each as B.
func Run(t *testing.T, c Config) Table {
	table := Table{{c.Heading}}
	for _, a := range c.Clients {
		for _, b := range c.Clients {
			table[0] = append(table[0], a.Name+" → "+b.Name)
		}
	}
	for i, s := range situations {
		row := []string{s.name}
		t.Run(s.name, func(t *testing.T) {
			for j, a := range c.Clients {
				for k, b := range c.Clients {
					if a.One && j == k {
						row = append(row, Same)
						continue
					}
					p := &pair{a: a, b: b, backing: c.Backing, name: fmt.Sprintf("%d.%d%d", i, j, k)}
					cell := "failed"
					t.Run(fmt.Sprintf("%s to %s", a.Name, b.Name), func(t *testing.T) {
						p.TB = t
						cell = s.cell(p)
					})
					row = append(row, cell)
				}
			}
		})
		table = append(table, row)
	}
	return table
}

// pair is two machines, each in a directory of this pair's own.
type pair struct {
	testing.TB
	a, b    Client
	backing string
	name    string
}

// on makes a further directory on the server and returns what both see of it.
func (p *pair) on(b, name string) (at, bt place) {
	p.Helper()
	name = p.name + name
	// By the server: a client knows more of what it has made itself.
	if err := os.Mkdir(filepath.Join(p.backing, name), 0o777); err != nil {
		p.Fatal(err)
	}
	return place{p.TB, filepath.Join(p.a.A, name)}, place{p.TB, filepath.Join(b, name)}
}

// long is the two on a mount of B with long timeouts.
func (p *pair) long() (a, b place) { p.Helper(); return p.on(p.b.Long, "l") }

// tick waits for the server's clock to move on: a change within one tick of it is one
// that no client can tell from what was before.
func (p *pair) tick() {
	p.Helper()
	name := filepath.Join(p.backing, "tick")
	touched := func() time.Time {
		if err := os.WriteFile(name, []byte("tick"), 0o666); err != nil {
			p.Fatal(err)
		}
		st, err := os.Stat(name)
		if err != nil {
			p.Fatal(err)
		}
		return st.ModTime()
	}
	for first := touched(); !touched().After(first); {
		time.Sleep(time.Millisecond)
	}
}

// patience bounds the wait for attributes to expire, which takes a second.
const patience = 3 * time.Minute

// when is the cell of a change. prepare is what there is before, and ends with B's first
// look. look reports whether B sees the change without opening a file or directory anew, open
// whether it does having done that; one of the two may be nil.
func (p *pair) when(prepare func(a, b place), change func(a place), look, open func(b place) bool) string {
	p.Helper()
	a, b := p.long()
	prepare(a, b)
	p.tick()
	change(a)
	word := Expired
	switch {
	case look != nil && look(b):
		word = AtOnce
	case open != nil && open(b):
		word = AtOpen
	}
	a, b = p.on(p.b.Short, "s")
	prepare(a, b)
	p.tick()
	change(a)
	if look == nil {
		look = open
	}
	for end := time.Now().Add(patience); !look(b); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			p.Fatalf("%s does not see the change %v after attributes with actimeo=1 have expired", p.b.Name, patience)
		}
	}
	return word
}
