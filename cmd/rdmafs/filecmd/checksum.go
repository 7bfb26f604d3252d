package filecmd

import (
	"bufio"
	"context"
	"crypto/md5"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/rdmafs/rdmafs/internal/filetree"
)

// algorithms are the checksums by their names.
var algorithms = map[string]func() hash.Hash{"md5": md5.New, "sha1": sha1.New, "sha256": sha256.New, "sha512": sha512.New}

const checksumHelp = `Print checksums of files of an export, and of all files in its directories, without mounting, in
the form of sha256sum(1) and its kin. Several files are read at once; their order is that of
the names.

With --check, FILE has such lines, of names below SERVER:/PATH or of the whole SERVER:/PATH: say
of each whether the file still has that checksum. FILE may be from sha256sum, so that a tree
is compared with a copy of it.`

func newChecksum() *cobra.Command {
	var words *[]string
	var name, list string
	var relative bool
	cmd := &cobra.Command{
		Use:   "checksum SERVER:/PATH...",
		Short: "Print or compare checksums of files of an export, without mounting",
		Long:  checksumHelp,
		Example: `  rdmafs checksum --relative server:/export/set > sums
  (cd /copy && sha256sum --check) < sums
  rdmafs checksum --check sums server:/export/set`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := needArgs(cmd, args, 1, "SERVER:/PATH..."); err != nil {
				return err
			}
			algorithm, ok := algorithms[name]
			if !ok {
				return fmt.Errorf("--algorithm is md5, sha1, sha256 or sha512, not %q", name)
			}
			if list != "" && len(args) != 1 {
				return errors.New("--check wants one SERVER:/PATH")
			}
			return execute(cmd, *words, func(ctx context.Context, r *run) error {
				s := summer{run: r, new: algorithm}
				return r.each(ctx, args, remoteOperand, func(o operand, t filetree.Tree, n string) error {
					if list != "" {
						return s.check(ctx, o, t, n, list)
					}
					return s.print(ctx, o, t, n, relative)
				})
			})
		},
	}
	words = optionsFlag(cmd)
	cmd.Flags().StringVar(&name, "algorithm", "sha256", "md5, sha1, sha256 or sha512")
	cmd.Flags().StringVar(&list, "check", "", "compare with the checksums in `FILE`, - for standard input")
	cmd.Flags().BoolVar(&relative, "relative", false, "print names below SERVER:/PATH alone")
	return cmd
}

// summer makes checksums.
type summer struct {
	*run
	new func() hash.Hash
}

// summing is how many files are read at once.
const summing = 8

// sum is a file's checksum, once it is there.
type sum struct {
	title string
	hex   string
	err   error
	done  chan struct{}
}

// inOrder makes the checksums of the files that each yields, several at once, and gives
// them to use in that order.
func (s *summer) inOrder(ctx context.Context, t filetree.Tree, each func(yield func(name, title string)), use func(*sum)) {
	sums := make(chan *sum, summing)
	runSum := func(name string, m *sum) {
		defer close(m.done)
		m.hex, m.err = s.of(ctx, t, name)
	}
	runEach := func() {
		defer close(sums)
		each(func(name, title string) {
			m := &sum{title: title, done: make(chan struct{})}
			sums <- m
			go runSum(name, m)
		})
	}
	go runEach()
	for m := range sums {
		<-m.done
		use(m)
	}
}

func (s *summer) of(ctx context.Context, t filetree.Tree, name string) (string, error) {
	info, err := t.Stat(name)
	if err != nil {
		return "", err
	}
	flag := syscall.O_RDONLY
	if info.Size() > readSize {
		flag |= syscall.O_DIRECT // not read ahead of what is read at once
	}
	f, err := t.OpenFile(name, flag, 0)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := s.new()
	if err := contents(ctx, h, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

func (s *summer) print(ctx context.Context, o operand, t filetree.Tree, name string, relative bool) error {
	info, err := t.Stat(name)
	if err != nil {
		return err
	}
	s.inOrder(ctx, t, func(yield func(name, title string)) {
		if !info.IsDir() {
			title := o.text
			if relative {
				title = info.Name()
			}
			yield(name, title)
			return
		}
		title := strings.TrimRight(o.text, "/")
		if relative {
			title = "."
		}
		s.files(ctx, t, name, title, yield)
	}, func(m *sum) {
		if m.err != nil {
			s.fail(m.err)
			return
		}
		mark, shown := escapeName(m.title)
		fmt.Fprintf(s.out, "%s%s  %s\n", mark, m.hex, shown)
	})
	return nil
}

// files yields the regular files below a directory.
func (s *summer) files(ctx context.Context, t filetree.Tree, dir, title string, yield func(name, title string)) {
	entries, err := t.ReadDir(dir)
	s.fail(err)
	for _, e := range entries {
		if ctx.Err() != nil {
			return
		}
		name, title := filetree.Path(dir, e.Name()), title+"/"+e.Name()
		switch {
		case e.IsDir():
			s.files(ctx, t, name, title, yield)
		case e.Type() == 0:
			yield(name, title)
		}
	}
}

// escapeName is a name as sha256sum writes it, with the mark that begins its line.
func escapeName(name string) (mark, escaped string) {
	if !strings.ContainsAny(name, "\\\n\r") {
		return "", name
	}
	return `\`, strings.NewReplacer(`\`, `\\`, "\n", `\n`, "\r", `\r`).Replace(name)
}

// wanted is a line of a list of checksums.
type wanted struct{ hex, name string }

var errBadLine = errors.New("not a line of checksums: HEX, two spaces and a name")

func parseLine(line string, size int) (wanted, error) {
	rest, escaped := strings.CutPrefix(line, `\`)
	hexes, name, ok := strings.Cut(rest, " ")
	if b, err := hex.DecodeString(hexes); !ok || err != nil || len(b) != size || len(name) < 2 || name[0] != ' ' && name[0] != '*' {
		return wanted{}, errBadLine
	}
	name = name[1:]
	if escaped {
		name = strings.NewReplacer(`\\`, `\`, `\n`, "\n", `\r`, "\r").Replace(name)
	}
	return wanted{strings.ToLower(hexes), name}, nil
}

// readList reads a list of checksums.
func readList(in io.Reader, size int) ([]wanted, error) {
	var list []wanted
	lines := bufio.NewScanner(in)
	for n := 1; lines.Scan(); n++ {
		w, err := parseLine(lines.Text(), size)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		list = append(list, w)
	}
	return list, lines.Err()
}

// check compares files with a list.
func (s *summer) check(ctx context.Context, o operand, t filetree.Tree, dir, list string) error {
	in := os.Stdin
	if list != "-" {
		var err error
		if in, err = os.Open(list); err != nil {
			return err
		}
		defer in.Close()
	}
	all, err := readList(in, s.new().Size())
	if err != nil {
		return fmt.Errorf("%s: %w", list, err)
	}
	next := slices.Values(all)
	base := strings.TrimRight(o.text, "/")
	k := 0
	s.inOrder(ctx, t, func(yield func(name, title string)) {
		for w := range next {
			name := dir
			if w.name != base {
				below := path.Clean("/" + strings.TrimPrefix(w.name, base+"/"))[1:]
				name = filetree.Path(dir, below)
			}
			yield(name, w.name)
		}
	}, func(m *sum) {
		w := all[k]
		k++
		switch {
		case m.err != nil:
			s.fail(m.err)
			fmt.Fprintf(s.out, "%s: FAILED open or read\n", s.show(w.name))
		case m.hex != w.hex:
			s.fail(fmt.Errorf("%s has another checksum", w.name))
			fmt.Fprintf(s.out, "%s: FAILED\n", s.show(w.name))
		default:
			fmt.Fprintf(s.out, "%s: OK\n", s.show(w.name))
		}
	})
	return nil
}
