// Command bench measures mounts side by side, in one run: rdmafs over iWARP, over RoCE
// and over TCP, all over the same directory, and beside them
//
//   - iwarp-4.2 and tcp-4.2, the same with NFS version 4.2, where the others have 3;
//   - loopc, what a file system by FUSE in Go can do at best: go-fuse's loopback with data
//     copied through the daemon, without network and server;
//   - passthrough_ll, the same by libfuse in C, if it could be built;
//   - ganesha and fuse-nfs, rdmafs by TCP and libnfs' client over the same nfs-ganesha, if
//     they are installed.
//
// It prints medians over the rounds with their spread, ratios, and what an operation
// costs the client. Absolute figures mean little on a shared machine; the mounts take
// turns with each workload so that what disturbs one disturbs all.
//
// With -against it compares two builds instead: each mount and its embedded
// server beside those of the build in another directory.
package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/rdmafs/rdmafs/internal/workload"
	"github.com/rdmafs/rdmafs/test/bench/compare"
)

// options are the command line.
type options struct {
	bin, against, systems, base string
	rounds                      int
	workloads, store            string
	memory, scale               bool
	files                       int
	json, markdown              string
}

func main() {
	log.SetFlags(0)
	log.SetPrefix("bench: ")
	var o options
	flag.StringVar(&o.bin, "bin", "bin", "directory of rdmafs, rdmafs-nfsd and loopc")
	flag.IntVar(&o.rounds, "rounds", 0, "rounds, each of which runs every workload once on every mount; 0 means 5, or 9 smaller ones with -against")
	flag.StringVar(&o.systems, "systems", "", "mounts to measure, separated by commas; all that can be if empty")
	flag.StringVar(&o.base, "base", loopc, "the mount that others are divided by")
	flag.StringVar(&o.against, "against", "", "directory of rdmafs and rdmafs-nfsd of another build: compare with that")
	flag.StringVar(&o.workloads, "workloads", ".", "regular expression for the names of the workloads to run")
	flag.StringVar(&o.store, "store", "", "directory for the data that is served; /dev/shm if that is memory with room")
	flag.BoolVar(&o.memory, "memory", false, "measure the memory of the clients as well; takes more than a minute")
	flag.BoolVar(&o.scale, "scale", false, "measure how rdmafs grows with threads, connections and files, instead; -systems names one of iwarp, roce and tcp")
	flag.IntVar(&o.files, "files", 100_000, "with -scale: files in a directory, at most; a million takes a while")
	flag.StringVar(&o.json, "json", "", "file for all values, as JSON")
	flag.StringVar(&o.markdown, "markdown", "", "file for the tables, as Markdown")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, o); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, o options) (err error) {
	names, err := regexp.Compile(o.workloads)
	if err != nil {
		return err
	}
	cfg := compare.Config{
		Workloads: workload.Matching(names),
		Rounds:    cmp.Or(o.rounds, 5),
		Size:      workload.Size{FileMiB: 128, Files: 1000, ListFiles: 10000, TreeFiles: 500, Random: 500 * time.Millisecond},
		Progress:  func(line string) { log.Print(line) },
	}
	if len(cfg.Workloads) == 0 {
		return fmt.Errorf("no workload matches %q", o.workloads)
	}
	if o.bin, err = filepath.Abs(o.bin); err != nil {
		return err
	}
	if o.against != "" {
		if o.against, err = filepath.Abs(o.against); err != nil {
			return err
		}
		// More and smaller rounds: of two builds the ratio in each counts.
		cfg.Rounds = cmp.Or(o.rounds, 9)
		cfg.Size.FileMiB, cfg.Size.Files, cfg.Size.TreeFiles, cfg.Size.Random = 64, 500, 250, 300*time.Millisecond
	}
	if o.scale {
		cfg.Rounds = cmp.Or(o.rounds, 3)
	}
	machine := compare.ThisMachine(cfg.Rounds)
	work, err := os.MkdirTemp(storeDir(o.store), "rdmafs-bench.")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	machine.Store = fileSystem(work)
	cfg.Scratch = filepath.Join(work, "scratch")
	if o.scale {
		tables, err := scale(ctx, o, cfg, work)
		if err != nil {
			return err
		}
		machine.LoadAfter = compare.Load()
		return write(o, machine, tables, "", struct {
			Machine *compare.Machine `json:"machine"`
			Tables  []*compare.Table `json:"tables"`
		}{machine, tables})
	}
	systems, stop, err := newSystems(o, work)
	if err != nil {
		return err
	}
	defer stop()
	results, err := compare.Run(ctx, systems, cfg)
	if err != nil {
		return err
	}
	if o.memory {
		dir := func(s *compare.System) (string, error) { return os.MkdirTemp(work, "mnt.") }
		if err := results.MeasureMemory(ctx, systems, cfg, dir); err != nil {
			return err
		}
	}
	machine.LoadAfter = compare.Load()
	results.Machine = machine
	return report(results, o)
}

// report prints the tables and writes the files that were asked for.
func report(r *compare.Results, o options) error {
	tables, verdict := r.Tables(pairs(r.Systems, o.base)), ""
	if o.against != "" {
		var names []string
		for _, s := range r.Systems {
			if slices.Contains(r.Systems, before(s)) {
				names = append(names, s)
			}
		}
		var t *compare.Table
		t, verdict = r.Change(names, before)
		tables = []*compare.Table{t}
	}
	for workload, systems := range r.Skipped {
		for system, reason := range systems {
			verdict += fmt.Sprintf("\n%s, %s, left out: %s", system, workload, reason)
		}
	}
	return write(o, r.Machine, tables, verdict, r)
}

// write prints the tables and writes the files that were asked for; all is for -json.
func write(o options, m *compare.Machine, tables []*compare.Table, verdict string, all any) error {
	text, md := &strings.Builder{}, &strings.Builder{}
	fmt.Fprintln(text, m)
	fmt.Fprintln(md, m)
	for _, t := range tables {
		if err := errors.Join(t.Text(text), t.Markdown(md)); err != nil {
			return err
		}
	}
	if verdict = strings.TrimSpace(verdict); verdict != "" {
		fmt.Fprintf(text, "\n%s\n", verdict)
		fmt.Fprintf(md, "\n%s\n", verdict)
	}
	fmt.Print(text)
	if o.markdown != "" {
		if err := os.WriteFile(o.markdown, []byte(md.String()), 0o644); err != nil {
			return err
		}
	}
	if o.json == "" {
		return nil
	}
	b, err := json.MarshalIndent(all, "", "\t")
	if err != nil {
		return err
	}
	return os.WriteFile(o.json, append(b, '\n'), 0o644)
}

// pairs are the ratios of interest: to the base, of version 4.2 to 3, and of the clients of one other server.
func pairs(systems []string, base string) []compare.Pair {
	var all []compare.Pair
	for _, s := range systems {
		if s != base && slices.Contains(systems, base) {
			all = append(all, compare.Pair{System: s, Base: base})
		}
	}
	for _, s := range systems {
		if way, is4 := strings.CutSuffix(s, version4); is4 && way != base && slices.Contains(systems, way) {
			all = append(all, compare.Pair{System: s, Base: way})
		}
	}
	if slices.Contains(systems, ganesha) && slices.Contains(systems, fuseNFS) {
		all = append(all, compare.Pair{System: ganesha, Base: fuseNFS})
	}
	return all
}
