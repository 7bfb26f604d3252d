package filecmd

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/spf13/cobra"

	"github.com/rdmafs/rdmafs/internal/filetree"
	"github.com/rdmafs/rdmafs/internal/transfer"
)

func newRm() *cobra.Command {
	var words *[]string
	var recursive, force, verbose bool
	cmd := &cobra.Command{
		Use:     "rm SERVER:/PATH...",
		Short:   "Remove files of an export, without mounting",
		Long:    "Remove files of an export, without mounting; of a directory, several at once. The root of an export is never removed.",
		Example: "  rdmafs rm -r server:/export/runs/old",
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 && force {
				return nil
			}
			if err := needArgs(cmd, args, 1, "SERVER:/PATH..."); err != nil {
				return err
			}
			return execute(cmd, *words, func(ctx context.Context, r *run) error {
				return r.each(ctx, args, remoteOperand, func(o operand, t filetree.Tree, name string) error {
					return r.rm(ctx, t, name, recursive, force, verbose)
				})
			})
		},
	}
	words = optionsFlag(cmd)
	cmd.Flags().BoolVarP(&recursive, "recursive", "r", false, "directories with what is in them")
	cmd.Flags().BoolVarP(&force, "force", "f", false, "what does not exist is no error")
	cmd.Flags().BoolVarP(&verbose, "verbose", "v", false, "print each name that is removed")
	return cmd
}

func (r *run) rm(ctx context.Context, t filetree.Tree, name string, recursive, force, verbose bool) error {
	if name == "." {
		return errors.New("is the root of the export, which is not removed")
	}
	var removed func(string)
	if verbose {
		removed = func(name string) {
			r.mu.Lock()
			defer r.mu.Unlock()
			fmt.Fprintln(r.out, "removed", r.show(name))
		}
	}
	err := transfer.Remove(ctx, t, name, recursive, removed)
	if force && errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
