package filecmd

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/rdmafs/rdmafs/internal/transfer"
)

// SyncHelp describes what a SyncCommand adds.
const SyncHelp = `With two names, make the directory TARGET have what the directory SOURCE has, as
"rsync -a SOURCE/ TARGET/" does: one of them or both are SERVER:/PATH. Files of the same size
and time are left, or with --checksum of the same contents. --delete removes what SOURCE does not
have, after everything was copied, and nothing if anything failed.`

// SyncCommand gives cmd, which takes one name, the flags and the meaning of two.
func SyncCommand(cmd *cobra.Command, one func(cmd *cobra.Command, args []string) error) {
	var f copyFlags
	var remove, contents bool
	f.add(cmd)
	cmd.Flags().BoolVar(&remove, "delete", false, "remove from TARGET what SOURCE does not have")
	cmd.Flags().BoolVarP(&contents, "checksum", "c", false, "compare the contents of files of the same size")
	cmd.Flags().BoolVarP(&f.dryRun, "dry-run", "n", false, "print what would be done")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) != 2 {
			return one(cmd, args)
		}
		if err := f.check(); err != nil {
			return err
		}
		return execute(cmd, *f.options, func(ctx context.Context, r *run) error {
			return f.syncTrees(ctx, r, args[0], args[1], remove, contents)
		})
	}
}

func (f *copyFlags) syncTrees(ctx context.Context, r *run, from, to string, remove, contents bool) error {
	source, err := parseOperand(from)
	if err != nil {
		return err
	}
	target, err := parseOperand(to)
	if err != nil {
		return err
	}
	if !source.remote && !target.remote {
		return errors.New("one of SOURCE and TARGET is SERVER:/PATH: rsync(1) is for two trees of this machine")
	}
	tree, name, err := r.find(ctx, target)
	if err != nil {
		return inWords(target, err)
	}
	there, n, err := r.find(ctx, source)
	if err != nil {
		return inWords(source, err)
	}
	if info, err := there.Stat(n); err != nil {
		return inWords(source, err)
	} else if !info.IsDir() {
		return errors.New(from + " is not a directory")
	}
	o := f.transfer(r)
	o.Recursive, o.Modes, o.Times, o.Owners, o.HardLinks = true, true, true, true, true
	o.Delete, o.When = remove, transfer.Differs
	if contents {
		o.When = transfer.Contents
	}
	c := transfer.New(ctx, tree, o)
	done := r.watch(o.Progress, f.progress)
	c.Copy(ctx, there, n, name)
	c.Close(ctx)
	done()
	return nil
}
