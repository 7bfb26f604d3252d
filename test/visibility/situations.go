package visibility

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// situation is a row of the table.
type situation struct {
	name string
	// cell says what happens to a pair.
	cell func(p *pair) string
}

const older, newer = "old", "newer"

// known has A make a file, and B read it.
func known(a, b place) {
	a.put("f", older)
	if got := b.read("f"); got != older {
		b.Fatalf("B reads %q", got)
	}
}

func rewrite(a place) { a.put("f", newer) }

var situations = []situation{
	{"writes and closes; B opens and reads", func(p *pair) string {
		return p.when(known, rewrite, nil, func(b place) bool { return b.read("f") == newer })
	}},
	{"writes and calls fsync; B opens and reads", func(p *pair) string {
		return p.when(known, func(a place) {
			f := a.open("f", os.O_WRONLY)
			_, err := f.WriteString(newer)
			a.must(errors.Join(err, f.Sync()))
		}, nil, func(b place) bool { return b.read("f") == newer })
	}},
	{"writes and closes; B has it open, and reads", func(p *pair) string {
		var f *os.File
		return p.when(func(a, b place) {
			a.put("f", older)
			f = b.open("f", os.O_RDONLY)
			b.again(f)
		}, rewrite, func(b place) bool { return b.again(f) == newer }, nil)
	}},
	{"writes and closes; B looks at size and mtime", func(p *pair) string {
		var before time.Time
		return p.when(func(a, b place) { known(a, b); before = b.stat("f").ModTime() }, rewrite,
			func(b place) bool {
				st := b.stat("f")
				if sized, timed := st.Size() == int64(len(newer)), st.ModTime().After(before); sized != timed {
					b.Fatalf("B sees one of the two: %d bytes, %v after %v", st.Size(), st.ModTime(), before)
				}
				return st.ModTime().After(before)
			},
			func(b place) bool { return b.opened("f").ModTime().After(before) })
	}},
	{"truncates; B has it open, and reads", func(p *pair) string {
		var f *os.File
		return p.when(func(a, b place) {
			a.put("f", newer)
			f = b.open("f", os.O_RDONLY)
			b.again(f)
		}, func(a place) { a.must(os.Truncate(a.path("f"), 2)) }, func(b place) bool { return b.again(f) == newer[:2] }, nil)
	}},
	{"stores through a mapping and calls msync; B opens and reads", func(p *pair) string {
		return p.when(known, func(a place) {
			a.store(a.open("f", os.O_RDWR), "new", func(m []byte) error { return unix.Msync(m, unix.MS_SYNC) })
		}, nil, func(b place) bool { return b.read("f") == "new" })
	}},
	{"stores through a mapping, unmaps and closes; B opens and reads", func(p *pair) string {
		return p.when(known, func(a place) {
			f, err := os.OpenFile(a.path("f"), os.O_RDWR, 0)
			a.must(err)
			a.store(f, "new", func([]byte) error { return nil })
			a.must(f.Close())
		}, nil, func(b place) bool { return b.read("f") == "new" })
	}},
	{"changes the mode; B looks at it", func(p *pair) string {
		return p.when(known, func(a place) { a.must(os.Chmod(a.path("f"), 0o600)) },
			func(b place) bool { return b.stat("f").Mode().Perm() == 0o600 },
			func(b place) bool { return b.opened("f").Mode().Perm() == 0o600 })
	}},
	{"makes a name that B has missed before; B looks for it", func(p *pair) string {
		return p.when(func(a, b place) {
			if b.is("f") {
				b.Fatal("B sees it too early")
			}
		}, rewrite, func(b place) bool { return b.is("f") }, func(b place) bool { return b.opens("f") })
	}},
	{"makes a name that B has not asked for; B looks for it", func(p *pair) string {
		return p.when(func(a, b place) { a.put("other", ""); b.stat("other") }, rewrite,
			func(b place) bool { return b.is("f") }, func(b place) bool { return b.opens("f") })
	}},
	{"makes such a name in a directory that B has made; B looks for it", func(p *pair) string {
		return p.when(func(a, b place) {
			b.must(os.Mkdir(b.path("d"), 0o777))
			b.must(os.Chmod(b.path("d"), 0o777))
			b.put("d/other", "")
		}, func(a place) { a.put("d/f", newer) }, func(b place) bool { return b.is("d/f") }, func(b place) bool { return b.opens("d/f") })
	}},
	{"removes a name that B knows; B looks for it", func(p *pair) string {
		return p.when(known, func(a place) { a.must(os.Remove(a.path("f"))) },
			func(b place) bool { return !b.is("f") }, func(b place) bool { return !b.opens("f") })
	}},
	{"renames a file that B knows; B looks for the old name", func(p *pair) string {
		return p.when(known, func(a place) { a.must(os.Rename(a.path("f"), a.path("g"))) },
			func(b place) bool { return !b.is("f") }, func(b place) bool { return !b.opens("f") })
	}},
	{"renames a file that B knows; B looks for the new name", func(p *pair) string {
		return p.when(known, func(a place) { a.must(os.Rename(a.path("f"), a.path("g"))) },
			func(b place) bool { return b.is("g") }, func(b place) bool { return b.opens("g") })
	}},
	{"renames another file over it; B looks at it", func(p *pair) string {
		return p.when(func(a, b place) { known(a, b); a.put("g", newer) }, func(a place) { a.must(os.Rename(a.path("g"), a.path("f"))) },
			func(b place) bool { return b.stat("f").Size() == int64(len(newer)) }, func(b place) bool { return b.read("f") == newer })
	}},
	{"removes a directory that B knows and makes it anew; B looks for a file in it", func(p *pair) string {
		return p.when(func(a, b place) {
			a.must(os.Mkdir(a.path("d"), 0o777))
			a.put("d/old", older)
			b.read("d/old")
		}, func(a place) {
			a.must(os.RemoveAll(a.path("d")))
			a.must(os.Mkdir(a.path("d"), 0o777))
			a.put("d/new", newer)
		}, func(b place) bool { return b.is("d/new") }, func(b place) bool { return b.opens("d/new") })
	}},
	{"makes a name; B lists the directory", func(p *pair) string {
		return p.when(func(a, b place) { a.put("e", ""); b.list() }, rewrite, nil, func(b place) bool { return b.list() == "e f" })
	}},
	{"removes a name; B lists the directory", func(p *pair) string {
		return p.when(func(a, b place) { a.put("e", ""); a.put("f", ""); b.list() }, func(a place) { a.must(os.Remove(a.path("f"))) },
			nil, func(b place) bool { return b.list() == "e" })
	}},
	{"makes a file that B has missed; B makes it with O_EXCL", func(p *pair) string {
		a, b := p.long()
		b.is("f")
		rewrite(a)
		f, err := os.OpenFile(b.path("f"), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
		if err == nil {
			f.Close()
		}
		return word(p, err)
	}},
	{"and B append in turns, each opening the file", func(p *pair) string {
		a, b := p.long()
		a.put("f", "")
		b.read("f")
		a.append("f", "A1 ")
		b.append("f", "B1 ")
		a.append("f", "A2")
		return b.read("f")
	}},
	{"appends and closes; B appends at once, having had it open", func(p *pair) string {
		a, b := p.long()
		a.put("f", "A1 ")
		f := b.open("f", os.O_WRONLY|os.O_APPEND)
		_, err := f.WriteString("B1 ")
		b.must(errors.Join(err, f.Sync()))
		a.append("f", "A2 ")
		_, err = f.WriteString("B2 ")
		b.must(errors.Join(err, f.Close()))
		return strings.TrimSpace(a.read("f"))
	}},
	{"locks by fcntl; B tries by fcntl", func(p *pair) string { return exclusive(p, byFcntl, byFcntl) }},
	{"locks by flock; B tries by flock", func(p *pair) string { return exclusive(p, byFlock, byFlock) }},
	{"locks by fcntl; B tries by flock", func(p *pair) string { return exclusive(p, byFcntl, byFlock) }},
	{"locks by flock; B tries by fcntl", func(p *pair) string { return exclusive(p, byFlock, byFcntl) }},
	{"and B lock for reading", func(p *pair) string {
		a, b := p.long()
		a.put("f", older)
		a.must(byFcntl(a.open("f", os.O_RDONLY), unix.F_RDLCK))
		return word(p, byFcntl(b.open("f", os.O_RDONLY), unix.F_RDLCK))
	}},
	{"writes under a lock; B, having had it open and read, reads under a lock", func(p *pair) string {
		a, b := p.long()
		a.put("f", older)
		here, there := a.open("f", os.O_RDWR), b.open("f", os.O_RDWR)
		b.again(there)
		p.tick()
		a.must(byFcntl(here, unix.F_WRLCK))
		_, err := here.WriteAt([]byte(newer), 0)
		a.must(errors.Join(err, byFcntl(here, unix.F_UNLCK)))
		b.must(byFcntl(there, unix.F_WRLCK))
		return b.again(there)
	}},
	{"removes a file that A has open; A reads it, B lists, A closes, B lists", func(p *pair) string {
		a, b := p.long()
		a.put("f", older)
		f := a.open("f", os.O_RDONLY)
		b.list()
		p.tick()
		a.must(os.Remove(a.path("f")))
		read, during := a.again(f), b.list()
		p.tick()
		a.must(f.Close())
		// The last close does not wait for the removal.
		for end := time.Now().Add(patience); place.list(place{p.TB, p.backing + "/" + p.name + "l"}) != "" && time.Now().Before(end); {
			time.Sleep(10 * time.Millisecond)
		}
		return fmt.Sprintf("%s, %s, %s", read, during, orNothing(b.list()))
	}},
	{"renames over a file that A has open; A reads it, B lists", func(p *pair) string {
		a, b := p.long()
		a.put("f", older)
		a.put("g", newer)
		f := a.open("f", os.O_RDONLY)
		b.list()
		p.tick()
		a.must(os.Rename(a.path("g"), a.path("f")))
		return fmt.Sprintf("%s, %s", a.again(f), b.list())
	}},
	{"removes a file that B has open and not read; B reads", func(p *pair) string {
		return stale(p, func(a place) { a.must(os.Remove(a.path("f"))) })
	}},
	{"renames over a file that B has open and not read; B reads", func(p *pair) string {
		return stale(p, func(a place) { a.put("g", ""); a.must(os.Rename(a.path("g"), a.path("f"))) })
	}},
}

// exclusive has A lock a file, and B ask for it before and after A gives it back.
func exclusive(p *pair, here, there lock) string {
	a, b := p.long()
	a.put("f", older)
	f, g := a.open("f", os.O_RDWR), b.open("f", os.O_RDWR)
	a.must(here(f, unix.F_WRLCK))
	refused := word(p, there(g, unix.F_WRLCK))
	a.must(here(f, unix.F_UNLCK))
	granted := word(p, there(g, unix.F_WRLCK))
	// The other way around.
	back := word(p, here(f, unix.F_WRLCK))
	return strings.Join([]string{refused, granted, back}, ", ")
}

// stale has B read a file that A has taken away.
func stale(p *pair, take func(a place)) string {
	a, b := p.long()
	a.put("f", older)
	b.stat("f")
	f := b.open("f", os.O_RDONLY)
	take(a)
	buf := make([]byte, 10)
	n, err := f.ReadAt(buf, 0)
	if n > 0 {
		return string(buf[:n])
	}
	return word(p, err)
}

// word is an error as the table shows it.
func word(p *pair, err error) string {
	p.Helper()
	for errno, word := range map[syscall.Errno]string{
		syscall.EEXIST: "EEXIST", syscall.EAGAIN: "EAGAIN", syscall.ESTALE: "ESTALE", syscall.ENOLCK: "ENOLCK",
	} {
		if errors.Is(err, errno) {
			return word
		}
	}
	if err != nil {
		p.Fatal(err)
	}
	return "done"
}

func orNothing(list string) string {
	if list == "" {
		return "nothing"
	}
	return list
}
