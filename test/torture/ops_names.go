package torture

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"
)

// A name's state is "-", "d" and a mode, "l" and a target, or "f", a mode and the
// content, as stateOf returns it.

// stateOf is the state of what path names.
func stateOf(at string) (string, error) {
	st, err := os.Lstat(at)
	if errors.Is(err, os.ErrNotExist) {
		return absent, nil
	}
	if err != nil {
		return "", err
	}
	switch mode := st.Mode(); {
	case mode.IsDir():
		return fmt.Sprintf("d:%o", mode.Perm()), nil
	case mode&os.ModeSymlink != 0:
		to, err := os.Readlink(at)
		return "l:" + to, err
	default:
		b, err := os.ReadFile(at)
		if err != nil {
			return "", err
		}
		return fmt.Sprintf("f:%o:%s", mode.Perm(), b), nil
	}
}

// namer makes, renames and removes names in a directory of its own.
type namer struct {
	*worker
	r     *rand.Rand
	n     int // of the worker's directories
	dir   string
	made  int
	model names
}

func (w *worker) useNames(n int, r *rand.Rand) {
	m := &namer{worker: w, r: r, n: n + w.base(), dir: fmt.Sprintf("d%d-%d", w.Number, n)}
	for !w.stop.Load() && !m.do(map[string][]string{m.dir: {"d:755"}}, "mkdir", func() error { return os.Mkdir(m.dir, 0o755) }) {
		m.made++
		m.dir = fmt.Sprintf("d%d-%d-%d", w.Number, n, m.made)
		pause()
	}
	for !w.stop.Load() {
		m.step()
	}
}

// do makes a call that changes names, and reports whether it succeeded.
func (m *namer) do(to map[string][]string, what string, call func() error) bool {
	m.model.begin(to)
	words := []any{evBegin, m.n}
	for p, states := range to {
		words = append(words, p+"="+strings.Join(states, "|"))
	}
	m.emit(words...)
	err := call()
	if err != nil {
		m.emit(evError, m.n, int(number(err)), what, err)
		if lasting(err) {
			m.stop.Store(true)
		}
		pause()
	}
	m.model.end(err == nil)
	m.emit(evEnd, m.n, err == nil)
	return err == nil
}

// certain is the names of which the state is known and has a kind.
func (m *namer) certain(kind string) []string {
	var all []string
	for p, n := range m.model.all {
		if p != m.dir && len(n.states) == 1 && strings.HasPrefix(n.states[0], kind) {
			all = append(all, p)
		}
	}
	slices.Sort(all)
	return all
}

func (m *namer) fresh() string {
	m.made++
	return path.Join(m.dir, fmt.Sprint("n", m.made))
}

func (m *namer) step() {
	files, dirs, links := m.certain("f:"), m.certain("d:"), m.certain("l:")
	pick := func(all []string) string { return all[m.r.IntN(len(all))] }
	switch k := m.r.IntN(12); {
	case k < 4 || len(files) == 0:
		m.create()
	case k < 6:
		to := m.fresh()
		if m.r.IntN(2) == 0 {
			to = pick(files)
		}
		m.rename(pick(files), to)
	case k < 8 && len(files) > 4:
		p := pick(files)
		m.do(map[string][]string{p: {absent}}, "unlink", func() error { return syscall.Unlink(p) })
	case k == 8:
		p := m.fresh()
		if len(dirs) > 3 {
			p = pick(dirs)
			m.do(map[string][]string{p: {absent}}, "rmdir", func() error { return syscall.Rmdir(p) })
			return
		}
		m.do(map[string][]string{p: {"d:750"}}, "mkdir", func() error { return os.Mkdir(p, 0o750) })
	case k == 9:
		p := m.fresh()
		if len(links) > 3 {
			p = pick(links)
			m.do(map[string][]string{p: {absent}}, "unlink", func() error { return syscall.Unlink(p) })
			return
		}
		m.do(map[string][]string{p: {"l:" + p}}, "symlink", func() error { return os.Symlink(p, p) })
	case k == 10:
		m.chmod(pick(files))
	default:
		m.list()
	}
}

func (m *namer) create() {
	p, mode := m.fresh(), 0o600|m.r.IntN(0o100)
	id := fmt.Sprint(m.Number, "-", m.made)
	// An exclusive CREATE carries no mode: a second call sets it.
	states := []string{"f:600:", fmt.Sprintf("f:%o:", mode), fmt.Sprintf("f:%o:%s", mode, id)}
	m.do(map[string][]string{p: states}, "create", func() error {
		f, err := os.OpenFile(p, os.O_CREATE|os.O_EXCL|os.O_WRONLY, os.FileMode(mode))
		if err != nil {
			return err
		}
		_, err = f.WriteString(id)
		return errors.Join(err, f.Close())
	})
}

func (m *namer) rename(from, to string) {
	if from == to {
		return
	}
	m.do(map[string][]string{from: {absent}, to: {m.model.of(from).states[0]}}, "rename", func() error { return syscall.Rename(from, to) })
}

func (m *namer) chmod(p string) {
	mode := 0o600 | m.r.IntN(0o100)
	parts := strings.SplitN(m.model.of(p).states[0], ":", 3)
	after := fmt.Sprintf("f:%o:%s", mode, parts[2])
	m.do(map[string][]string{p: {after}}, "chmod", func() error { return os.Chmod(p, os.FileMode(mode)) })
}

// list compares a listing, and one name, with what is there.
func (m *namer) list() {
	ents, err := os.ReadDir(m.dir)
	if err != nil {
		m.emit(evError, m.n, int(number(err)), "readdir", err)
		if lasting(err) {
			m.stop.Store(true)
		}
		pause()
		return
	}
	there := map[string]bool{}
	for _, e := range ents {
		p := path.Join(m.dir, e.Name())
		if there[p] {
			m.emit(evBad, "listed twice:", p)
		}
		there[p] = true
		if m.model.all[p] == nil && !strings.HasPrefix(e.Name(), ".nfs") {
			m.emit(evBad, "listed, and was never made:", p)
		}
	}
	for p, n := range m.model.all {
		if p == m.dir || len(n.states) > 1 {
			continue
		}
		if there[p] != (n.states[0] != absent) {
			m.emit(evBad, fmt.Sprintf("listed %v, and it is %q: %s", there[p], n.states[0], p))
		}
	}
	if files := m.certain("f:"); len(files) > 0 {
		p := files[m.r.IntN(len(files))]
		got, err := stateOf(p)
		switch {
		case err != nil:
			m.emit(evError, m.n, int(number(err)), "look", err)
		case got != m.model.of(p).states[0]:
			m.emit(evBad, fmt.Sprintf("%s is %q, want %q", p, got, m.model.of(p).states[0]))
		}
	}
	m.emit(evRead, m.n)
}
