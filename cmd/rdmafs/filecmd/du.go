package filecmd

import (
	"context"
	"fmt"
	"io/fs"

	"github.com/spf13/cobra"

	"github.com/rdmafs/rdmafs/internal/filetree"
)

type duFlags struct {
	options                          *[]string
	summary, all, human, total, size bool
}

func newDu() *cobra.Command {
	var f duFlags
	cmd := &cobra.Command{
		Use:     "du SERVER:/PATH...",
		Short:   "Show what directories of an export take, without mounting",
		Long:    "Show what directories of an export take, without mounting: in KiB, with the flags of du(1). A file of several names counts once.",
		Example: "  rdmafs du -s server:/export/home/alice",
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := needArgs(cmd, args, 1, "SERVER:/PATH..."); err != nil {
				return err
			}
			if f.summary && f.all {
				return fmt.Errorf("--summarize and --all exclude each other")
			}
			return execute(cmd, *f.options, func(ctx context.Context, r *run) error { return f.du(ctx, r, args) })
		},
	}
	f.options = optionsFlag(cmd)
	cmd.Flags().BoolVarP(&f.summary, "summarize", "s", false, "one line for each name that was given")
	cmd.Flags().BoolVarP(&f.all, "all", "a", false, "files, too")
	cmd.Flags().BoolVar(&f.human, "human-readable", false, "sizes like 1.5G")
	cmd.Flags().BoolVarP(&f.total, "total", "c", false, "a sum at the end")
	cmd.Flags().BoolVar(&f.size, "apparent-size", false, "sizes of files instead of what they take")
	return cmd
}

// usage adds up what files take.
type usage struct {
	*duFlags
	r    *run
	t    filetree.Tree
	seen map[uint64]bool // files of several names
}

func (f *duFlags) du(ctx context.Context, r *run, args []string) error {
	var total int64
	err := r.each(ctx, args, remoteOperand, func(o operand, t filetree.Tree, name string) error {
		info, err := t.Lstat(name)
		if err != nil {
			return err
		}
		u := usage{f, r, t, map[uint64]bool{}}
		n := u.of(ctx, name, o.text, info, true)
		total += n
		return nil
	})
	if f.total && err == nil {
		f.print(r, total, "total")
	}
	return err
}

func (f *duFlags) print(r *run, n int64, name string) {
	if f.human {
		fmt.Fprintf(r.out, "%s\t%s\n", size(n), r.show(name))
		return
	}
	fmt.Fprintf(r.out, "%d\t%s\n", (n+1023)/1024, r.show(name))
}

// of is what a file takes, or a directory with what is in it.
func (u *usage) of(ctx context.Context, name, title string, info fs.FileInfo, given bool) int64 {
	_, ino, names := filetree.ID(info)
	if !info.IsDir() && names > 1 {
		if u.seen[ino] {
			return 0
		}
		u.seen[ino] = true
	}
	n := filetree.Used(info)
	if u.size {
		n = info.Size()
	}
	if info.IsDir() {
		entries, err := u.t.ReadDir(name)
		u.r.fail(err)
		for _, e := range entries {
			if ctx.Err() != nil {
				return n
			}
			in, err := e.Info()
			if err != nil {
				u.r.fail(err)
				continue
			}
			n += u.of(ctx, filetree.Path(name, e.Name()), filetree.Path(title, e.Name()), in, false)
		}
	}
	if given || u.all || info.IsDir() && !u.summary {
		u.print(u.r, n, title)
	}
	return n
}
