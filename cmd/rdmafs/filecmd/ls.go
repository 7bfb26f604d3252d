package filecmd

import (
	"cmp"
	"context"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/rdmafs/rdmafs/internal/filetree"
)

type lsFlags struct {
	options                               *[]string
	long, all, self, recursive, human     bool
	byTime, bySize, reverse, numeric, ino bool
}

func newLs() *cobra.Command {
	var f lsFlags
	cmd := &cobra.Command{
		Use:     "ls SERVER:/PATH...",
		Short:   "List directories of an export, without mounting",
		Long:    "List directories of an export, without mounting: a name a line, with the flags of ls(1).",
		Example: "  rdmafs ls -l server:/export/runs",
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := needArgs(cmd, args, 1, "SERVER:/PATH..."); err != nil {
				return err
			}
			return execute(cmd, *f.options, func(ctx context.Context, r *run) error { return f.ls(ctx, r, args) })
		},
	}
	f.options = optionsFlag(cmd)
	cmd.Flags().BoolVarP(&f.long, "long", "l", false, "with mode, links, owner, group, size and time")
	cmd.Flags().BoolVarP(&f.all, "all", "a", false, "names that begin with a dot, too")
	cmd.Flags().BoolVarP(&f.self, "directory", "d", false, "directories themselves, not what is in them")
	cmd.Flags().BoolVarP(&f.recursive, "recursive", "R", false, "directories in directories, too")
	cmd.Flags().BoolVar(&f.human, "human-readable", false, "with -l: sizes like 1.5G")
	cmd.Flags().BoolVarP(&f.byTime, "time", "t", false, "the newest first")
	cmd.Flags().BoolVarP(&f.bySize, "size", "S", false, "the largest first")
	cmd.Flags().BoolVarP(&f.reverse, "reverse", "r", false, "in reverse order")
	cmd.Flags().BoolVarP(&f.numeric, "numeric-uid-gid", "n", false, "-l with numbers of users and groups")
	cmd.Flags().BoolVarP(&f.ino, "inode", "i", false, "with the number of each file")
	return cmd
}

// listed is an entry of a listing. info is nil where the names are all that is asked for.
type listed struct {
	name string
	info fs.FileInfo
	dir  bool
}

func (f *lsFlags) ls(ctx context.Context, r *run, args []string) error {
	f.long = f.long || f.numeric
	headed := len(args) > 1 || f.recursive
	first := true
	return r.each(ctx, args, remoteOperand, func(o operand, t filetree.Tree, name string) error {
		info, err := t.Stat(name)
		if err != nil || f.self || !info.IsDir() {
			if info, err = t.Lstat(name); err != nil {
				return err
			}
			first = false
			f.print(r, t, "", []listed{{name: o.text, info: info}})
			return nil
		}
		return f.directory(ctx, r, t, name, o.text, headed, &first)
	})
}

// directory lists a directory, which is shown as title.
func (f *lsFlags) directory(ctx context.Context, r *run, t filetree.Tree, name, title string, headed bool, first *bool) error {
	entries, err := t.ReadDir(name)
	if err != nil {
		return err
	}
	if headed {
		if !*first {
			fmt.Fprintln(r.out)
		}
		fmt.Fprintf(r.out, "%s:\n", r.show(title))
	}
	*first = false
	list, err := f.entries(r, t, name, entries)
	if err != nil {
		return err
	}
	f.print(r, t, name, list)
	if !f.recursive {
		return nil
	}
	for _, e := range list {
		if !e.dir || e.name == "." || e.name == ".." || ctx.Err() != nil {
			continue
		}
		if err := f.directory(ctx, r, t, filetree.Path(name, e.name), filetree.Path(title, e.name), headed, first); err != nil {
			r.fail(err)
		}
	}
	return nil
}

// entries are the entries of a directory that are to be shown, in their order.
func (f *lsFlags) entries(r *run, t filetree.Tree, dir string, entries []fs.DirEntry) ([]listed, error) {
	var list []listed
	if f.all {
		info, err := t.Lstat(dir)
		if err != nil {
			return nil, err
		}
		list = append(list, listed{".", info, true})
	}
	stat := f.long || f.byTime || f.bySize || f.ino
	for _, e := range entries {
		if !f.all && strings.HasPrefix(e.Name(), ".") {
			continue
		}
		l := listed{name: e.Name(), dir: e.IsDir()}
		if stat {
			var err error
			if l.info, err = e.Info(); err != nil {
				r.fail(err)
				continue
			}
		}
		list = append(list, l)
	}
	switch {
	case f.byTime:
		slices.SortStableFunc(list, func(a, b listed) int { return b.info.ModTime().Compare(a.info.ModTime()) })
	case f.bySize:
		slices.SortStableFunc(list, func(a, b listed) int { return cmp.Compare(b.info.Size(), a.info.Size()) })
	}
	if f.reverse {
		slices.Reverse(list)
	}
	return list, nil
}

// print prints entries of a directory, a line each, with their columns aligned.
func (f *lsFlags) print(r *run, t filetree.Tree, dir string, list []listed) {
	now := time.Now()
	rows := make([][]string, len(list))
	var widths []int
	for k, l := range list {
		rows[k] = f.columns(l.info, now)
		for c, text := range rows[k] {
			if c == len(widths) {
				widths = append(widths, 0)
			}
			widths[c] = max(widths[c], len(text))
		}
	}
	for k, l := range list {
		var line strings.Builder
		for c, text := range rows[k] {
			if leftAligned(f, c) {
				fmt.Fprintf(&line, "%-*s ", widths[c], text)
			} else {
				fmt.Fprintf(&line, "%*s ", widths[c], text)
			}
		}
		line.WriteString(r.show(l.name))
		if f.long && l.info.Mode()&fs.ModeSymlink != 0 && dir != "" {
			target, err := t.ReadLink(filetree.Path(dir, l.name))
			if err != nil {
				r.fail(err)
			} else {
				line.WriteString(" -> " + r.show(target))
			}
		}
		fmt.Fprintln(r.out, line.String())
	}
}

// leftAligned reports whether a column holds words.
func leftAligned(f *lsFlags, c int) bool {
	if f.ino {
		c--
	}
	return c == 0 || !f.numeric && (c == 2 || c == 3)
}

// columns are what stands before a name.
func (f *lsFlags) columns(info fs.FileInfo, now time.Time) []string {
	var row []string
	if !f.long && !f.ino {
		return nil
	}
	_, ino, names := filetree.ID(info)
	if f.ino {
		row = append(row, strconv.FormatUint(ino, 10))
	}
	if !f.long {
		return row
	}
	uid, gid := filetree.Owner(info)
	owner, group := strconv.Itoa(uid), strconv.Itoa(gid)
	if !f.numeric {
		owner, group = users.of(uid, owner), groups.of(gid, group)
	}
	bytes := strconv.FormatInt(info.Size(), 10)
	if f.human {
		bytes = size(info.Size())
	}
	return append(row, modeString(info.Mode()), strconv.FormatUint(names, 10), owner, group, bytes, listTime(info.ModTime(), now))
}
