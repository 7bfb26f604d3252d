package filecmd

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/rdmafs/rdmafs/internal/filetree"
)

func newMkdir() *cobra.Command {
	var words *[]string
	var parents, verbose bool
	var mode string
	cmd := &cobra.Command{
		Use:     "mkdir SERVER:/PATH...",
		Short:   "Make directories in an export, without mounting",
		Example: "  rdmafs mkdir -p server:/export/runs/2026/11",
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := needArgs(cmd, args, 1, "SERVER:/PATH..."); err != nil {
				return err
			}
			perm, exact := 0o777&^umask(), false
			if mode != "" {
				n, err := strconv.ParseUint(mode, 8, 12)
				if err != nil {
					return fmt.Errorf("--mode is an octal number up to 7777, not %q", mode)
				}
				perm, exact = goMode(uint32(n)), true
			}
			return execute(cmd, *words, func(ctx context.Context, r *run) error {
				return r.each(ctx, args, remoteOperand, func(o operand, t filetree.Tree, name string) error {
					return r.mkdir(t, name, perm, exact, parents, verbose)
				})
			})
		},
	}
	words = optionsFlag(cmd)
	cmd.Flags().BoolVarP(&parents, "parents", "p", false, "make what they are to be in, too; what exists is no error")
	cmd.Flags().StringVarP(&mode, "mode", "m", "", "the mode, in octal")
	cmd.Flags().BoolVarP(&verbose, "verbose", "v", false, "print each name that is made")
	return cmd
}

// mkdir makes a directory. Those above it get the usual mode.
func (r *run) mkdir(t filetree.Tree, name string, perm fs.FileMode, exact, parents, verbose bool) error {
	err := t.Mkdir(name, perm)
	if parents && errors.Is(err, fs.ErrNotExist) && name != "." {
		above := 0o777&^umask() | 0o300 // as mkdir(1): what is to be in them can be made
		if err := r.mkdir(t, path.Dir(name), above, false, true, verbose); err != nil {
			return err
		}
		err = t.Mkdir(name, perm)
	}
	if parents && err != nil {
		if info, e := t.Stat(name); e == nil && info.IsDir() {
			return nil
		}
	}
	if err != nil {
		return err
	}
	if verbose {
		fmt.Fprintln(r.out, "made", r.show(name))
	}
	if exact && perm&^fs.ModePerm != 0 {
		return t.Chmod(name, perm) // mkdir(2) takes no more than permissions
	}
	return nil
}
