package filecmd

import (
	"context"
	"io"

	"github.com/spf13/cobra"

	"github.com/rdmafs/rdmafs/internal/filetree"
)

func newCat() *cobra.Command {
	var words *[]string
	cmd := &cobra.Command{
		Use:     "cat SERVER:/PATH...",
		Short:   "Print files of an export, without mounting",
		Example: `  rdmafs cat server:/export/data.tar | tar -x`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := needArgs(cmd, args, 1, "SERVER:/PATH..."); err != nil {
				return err
			}
			return execute(cmd, *words, func(ctx context.Context, r *run) error {
				return r.each(ctx, args, remoteOperand, func(_ operand, t filetree.Tree, name string) error {
					return r.cat(ctx, t, name)
				})
			})
		},
	}
	words = optionsFlag(cmd)
	return cmd
}

func (r *run) cat(ctx context.Context, t filetree.Tree, name string) error {
	f, err := t.OpenFile(name, 0, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	return contents(ctx, r.out, f)
}

// readSize is what is read of a file at once.
const readSize = 1 << 20

// contents writes all that a file holds to w.
func contents(ctx context.Context, w io.Writer, f filetree.File) error {
	buf := make([]byte, readSize)
	for off := int64(0); ; {
		if err := ctx.Err(); err != nil {
			return err
		}
		n, err := f.ReadAt(buf, off)
		if _, err := w.Write(buf[:n]); err != nil {
			return err
		}
		off += int64(n)
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}
