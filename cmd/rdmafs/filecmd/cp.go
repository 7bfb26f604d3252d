package filecmd

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rdmafs/rdmafs/internal/filetree"
	"github.com/rdmafs/rdmafs/internal/transfer"
)

const cpHelp = `Copy files between an export and this machine, or between two exports, without mounting
anything. A SOURCE or TARGET is SERVER:/PATH, or a file of this machine.

Several files, and several pieces of a large file, are under way at once. A file is written
under a name of its own beside the target, made stable, and renamed: nobody sees half of
it, and what was there before stays until the new file is whole. What an interrupted copy
leaves, .NAME.NUMBER.part, is gone on with by --resume, as long as the source has not
changed, and replaced without. --in-place writes the target itself, as cp(1) does.

Devices, sockets and named pipes are not copied, nor are ACLs and other extended attributes.`

const cpExamples = `  rdmafs cp server:/export/model.bin /scratch/
  rdmafs cp -r -o rdma=iwarp ./results server:/export/run7/
  rdmafs cp -a --progress server1:/a server2:/b`

// copyFlags are those of cp and sync.
type copyFlags struct {
	options  *[]string
	inPlace  bool
	resume   bool
	verbose  bool
	dryRun   bool
	progress bool
	files    int
}

func (f *copyFlags) add(cmd *cobra.Command) {
	f.options = optionsFlag(cmd)
	cmd.Flags().BoolVar(&f.inPlace, "in-place", false, "write existing targets themselves instead of replacing them")
	cmd.Flags().BoolVar(&f.resume, "resume", false, "go on with what an interrupted copy of the same source has left; each piece is made\nstable, so that this works after a crash of the client, too")
	cmd.Flags().BoolVarP(&f.verbose, "verbose", "v", false, "print the name of each target")
	cmd.Flags().BoolVar(&f.progress, "progress", false, "show how far the copy is; the default on a terminal")
	cmd.Flags().IntVarP(&f.files, "jobs", "j", 8, "how many files are copied at once")
}

// check is what is wrong with the flags.
func (f *copyFlags) check() error {
	const most = 256
	if f.files < 1 || f.files > most {
		return fmt.Errorf("--jobs is a number from 1 to %d", most)
	}
	if f.resume && f.inPlace {
		return errors.New("--resume and --in-place exclude each other: what is written in place cannot be gone on with")
	}
	return nil
}

// transfer are the flags as options of a copy.
func (f *copyFlags) transfer(r *run) transfer.Options {
	o := transfer.Options{
		InPlace: f.inPlace, Resume: f.resume, DryRun: f.dryRun, Files: f.files,
		Umask: umask(), Failed: r.fail, Progress: &transfer.Progress{},
	}
	if f.verbose || f.dryRun {
		o.Copied = func(name string) { fmt.Fprintln(r.out, r.show(name)) }
		o.Deleted = func(name string) { fmt.Fprintln(r.out, "deleted", r.show(name)) }
	}
	return o
}

type cpFlags struct {
	copyFlags
	recursive, archive, preserve, follow, keepLinks bool
	update, noClobber, asFile                       bool
}

func newCp() *cobra.Command {
	var f cpFlags
	cmd := &cobra.Command{
		Use:     "cp SOURCE... TARGET",
		Short:   "Copy files to, from or between exports, without mounting",
		Long:    cpHelp,
		Example: cpExamples,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := needArgs(cmd, args, 2, "SOURCE... and TARGET"); err != nil {
				return err
			}
			if err := f.check(); err != nil {
				return err
			}
			if f.update && f.noClobber {
				return errors.New("--update and --no-clobber exclude each other")
			}
			return execute(cmd, *f.options, func(ctx context.Context, r *run) error {
				return f.cp(ctx, r, args[:len(args)-1], args[len(args)-1])
			})
		},
	}
	f.add(cmd)
	cmd.Flags().BoolVarP(&f.recursive, "recursive", "r", false, "copy directories with what is in them")
	cmd.Flags().BoolVarP(&f.archive, "archive", "a", false, "-r -p, symbolic links as links, and names of one file as names of one file")
	cmd.Flags().BoolVarP(&f.preserve, "preserve", "p", false, "keep modes, times, and owners as far as this user may set them")
	cmd.Flags().BoolVarP(&f.follow, "dereference", "L", false, "copy what symbolic links lead to")
	cmd.Flags().BoolVarP(&f.keepLinks, "no-dereference", "P", false, "copy symbolic links as links; the default with -r")
	cmd.Flags().BoolVarP(&f.update, "update", "u", false, "leave targets that are not older")
	cmd.Flags().BoolVarP(&f.noClobber, "no-clobber", "n", false, "leave targets that exist")
	cmd.Flags().BoolVarP(&f.asFile, "no-target-directory", "T", false, "TARGET is the copy itself, even if it is a directory")
	return cmd
}

func (f *cpFlags) cp(ctx context.Context, r *run, from []string, to string) error {
	target, err := parseOperand(to)
	if err != nil {
		return err
	}
	tree, name, err := r.find(ctx, target)
	if err != nil {
		return inWords(target, err)
	}
	info, err := tree.Stat(name)
	into := err == nil && info.IsDir() && !f.asFile
	switch {
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return inWords(target, err)
	case !into && (len(from) > 1 || err != nil && strings.HasSuffix(to, "/") && !f.recursive && !f.archive):
		return fmt.Errorf("%s is not a directory", to)
	}
	o := f.transfer(r)
	o.Recursive = f.recursive || f.archive
	o.Follow = f.follow && !f.keepLinks
	o.Modes = f.preserve || f.archive
	o.Times, o.Owners, o.HardLinks = o.Modes, o.Modes, f.archive
	switch {
	case f.update:
		o.When = transfer.Older
	case f.noClobber:
		o.When = transfer.Missing
	}
	c := transfer.New(ctx, tree, o)
	done := r.watch(o.Progress, f.progress)
	err = r.each(ctx, from, parseOperand, func(source operand, t filetree.Tree, n string) error {
		if !source.remote && !target.remote {
			return fmt.Errorf("neither it nor %s is SERVER:/PATH: cp(1) copies files of this machine", to)
		}
		at := name
		if into {
			base := path.Base(path.Clean(source.path()))
			if base == "/" || base == "." || base == ".." {
				return errors.New("has no name to be copied by: end TARGET with one, and use -T")
			}
			at = filetree.Path(name, base)
		}
		c.Copy(ctx, t, n, at)
		return nil
	})
	c.Close(ctx)
	done()
	return err
}

// path is the operand's path, on this machine or on its server.
func (o operand) path() string {
	if o.remote {
		return o.server.Export
	}
	return o.text
}
