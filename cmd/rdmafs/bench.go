package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"regexp"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/rdmafs/rdmafs/internal/bench"
	"github.com/rdmafs/rdmafs/internal/options"
	"github.com/rdmafs/rdmafs/internal/plain"
	"github.com/rdmafs/rdmafs/internal/source"
	"github.com/rdmafs/rdmafs/internal/workload"
)

const benchHelp = `Measure a file system with the workloads that rdmafs is measured with: large files,
random reads and writes, small files, directories, source trees, git.

  DIRECTORY         one of any mounted file system: of rdmafs, of the kernel's NFS
                    client, or of a disk, to compare with
  SERVER:/EXPORT    is mounted for the time, on a temporary directory, with the options of
                    "rdmafs mount"; and anew for each workload, so that caches are empty
  … --no-fuse       the same without FUSE, as Go programs use rdmafs; workloads that run
                    other programs are left out

It works in a directory of its own, "rdmafs-bench." and a number, and removes that at the
end, also when it is interrupted. Nothing else is touched.

A row has what was done in a second, the median time of one operation where one follows
another, how many calls to the server each took, and the processor time of the client's
process. What is counted in MiB has both for 1 MiB. Each workload ends when --time is used
up, even if it has done less than it was to do.

Exit codes are those of mount(8): 0, or 1 for a wrong command line, 2 for what this machine
lacks, 8 after an interruption, 32 if something failed.`

const benchExamples = `  rdmafs bench /mnt                                      a directory, mounted by whatever
  rdmafs bench server:/export -o rdma=iwarp              an export, over iWARP
  rdmafs bench server:/export -o proto=tcp --no-fuse     over TCP, without FUSE
  rdmafs bench server:/export --workloads '^create|^stat' --time 10s
  rdmafs bench /mnt --html report.html                   a page with plots, to look at or to send
  rdmafs bench /mnt --size 4GiB --time 10m --json        for programs`

// benchArgs is a bench command understood and checked.
type benchArgs struct {
	target, words string
	noFUSE        bool
	cfg           bench.Config
}

func newBenchCommand() *cobra.Command {
	var words []string
	var size, names, page string
	var limit time.Duration
	var noFUSE, asJSON bool
	cmd := &cobra.Command{
		Use:     "bench DIRECTORY | SERVER:/EXPORT [-o OPTIONS] [--no-fuse]",
		Short:   "Measure a mount or a server",
		Long:    benchHelp,
		Example: benchExamples,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return withCode(exitUsage, fmt.Errorf("bench wants one DIRECTORY or SERVER:/EXPORT, got %d arguments", len(args)))
			}
			b := benchArgs{target: args[0], words: strings.Join(words, ","), noFUSE: noFUSE}
			if err := b.check(size, names, limit); err != nil {
				return withCode(exitUsage, err)
			}
			var file *pageFile
			if page != "" {
				var err error
				if file, err = newPageFile(page); err != nil {
					return withCode(exitSystem, err)
				}
			}
			if !asJSON {
				b.cfg.Progress = progress(len(b.cfg.Workloads))
			}
			r, err := b.run()
			if err != nil {
				if file != nil {
					file.drop()
				}
				return err
			}
			if file != nil {
				if err := file.write(bench.Page(r)); err != nil {
					return withCode(exitSystem, err)
				}
			}
			if asJSON {
				return plain.WriteJSON(cmd.OutOrStdout(), r)
			}
			return bench.Print(cmd.OutOrStdout(), r)
		},
	}
	f := cmd.Flags()
	f.StringArrayVarP(&words, "options", "o", nil, "mount options, as for rdmafs mount")
	f.BoolVar(&noFUSE, "no-fuse", false, "use the export without FUSE")
	f.StringVar(&size, "size", "256MiB", "of the large file: a number of MiB, or with KiB, MiB or GiB behind it")
	f.DurationVar(&limit, "time", time.Minute, "that all is to take, about: 30s, 10m")
	f.StringVar(&names, "workloads", ".", "regular expression for the names of the workloads to run")
	f.StringVar(&page, "html", "", "write a report with plots to this file, too")
	f.BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// progress tells, on a terminal, what is being measured.
func progress(all int) func(name string) {
	info, err := os.Stderr.Stat()
	if err != nil || info.Mode()&os.ModeCharDevice == 0 {
		return func(string) {}
	}
	n := 0
	return func(name string) {
		n++
		plain.Fprintf(os.Stderr, "%d of %d: %s\n", n, all, name)
	}
}

// check finds what is wrong with the command without touching anything.
func (b *benchArgs) check(size, names string, limit time.Duration) error {
	mib, err := mebibytes(size)
	if err != nil {
		return err
	}
	if limit <= 0 {
		return fmt.Errorf("--time %v is not more than 0", limit)
	}
	chosen, err := regexp.Compile(names)
	if err != nil {
		return fmt.Errorf("--workloads: %w", err)
	}
	b.cfg = bench.Config{
		Workloads: workload.Matching(chosen), Time: limit,
		Size:     workload.Size{FileMiB: mib, Files: 1000, ListFiles: 2000, TreeFiles: 300},
		Progress: func(string) {},
	}
	if len(b.cfg.Workloads) == 0 {
		var all []string
		for _, w := range workload.All() {
			all = append(all, w.Name)
		}
		return fmt.Errorf("no workload matches %q; there are: %s", names, strings.Join(all, "; "))
	}
	if !b.export() {
		switch {
		case b.noFUSE:
			return fmt.Errorf("--no-fuse is for SERVER:/EXPORT; %s is a directory", b.target)
		case b.words != "":
			return fmt.Errorf("-o is for SERVER:/EXPORT; %s is a directory", b.target)
		}
		return nil
	}
	o, err := options.Parse([]string{b.words})
	if err != nil {
		return err
	}
	if o.ReadOnly {
		return errors.New("bench writes: leave out -o ro")
	}
	_, err = source.Parse(b.target)
	return err
}

// export: the target is an export and not a directory.
func (b *benchArgs) export() bool { return strings.Contains(b.target, ":/") }

// mebibytes understands a size.
func mebibytes(s string) (int, error) {
	var n int
	var unit string
	bad := fmt.Errorf("--size %q: want a number of MiB, or one with KiB, MiB or GiB behind it", s)
	if k, err := fmt.Sscanf(s+" ", "%d%s", &n, &unit); k == 0 || k == 1 && err == nil || n <= 0 || n > 1<<24 {
		return 0, bad
	}
	switch strings.ToLower(unit) {
	case "", "m", "mb", "mib":
	case "k", "kb", "kib":
		n /= 1024
	case "g", "gb", "gib":
		n *= 1024
	default:
		return 0, bad
	}
	return max(n, 1), nil
}

// benchGround is a ground that is ended, with all that was made there.
type benchGround interface {
	bench.Ground
	End() error
}

// run measures, and removes what was made.
func (b *benchArgs) run() (r *bench.Report, err error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	// A second signal ends the process at once.
	defer context.AfterFunc(ctx, stop)()
	scratch, err := os.MkdirTemp("", "rdmafs-bench.")
	if err != nil {
		return nil, withCode(exitSystem, err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(scratch)) }()
	b.cfg.Scratch = scratch
	var g benchGround
	switch {
	case !b.export():
		g, err = newBenchDirectory(b.target)
	case b.noFUSE:
		g = &benchLibrary{target: b.target, words: b.words}
	default:
		g, err = newBenchMount(b.target, b.words)
	}
	if err != nil {
		return nil, err
	}
	r, err = bench.Run(ctx, g, b.cfg)
	if err != nil && ctx.Err() != nil {
		err = withCode(exitInterrupted, errors.New("interrupted"))
	}
	left := g.End()
	if left != nil {
		left = fmt.Errorf("what was made could not be removed: %w", left)
	}
	if err = errors.Join(err, left); err == nil {
		return r, nil
	}
	code := exitFail
	if e := (*exitError)(nil); errors.As(err, &e) {
		code = e.code
	}
	if !strings.HasPrefix(err.Error(), b.target+": ") {
		err = fmt.Errorf("%s: %w", b.target, err)
	}
	return nil, withCode(code, err)
}
