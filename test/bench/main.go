// Command bench measures mounts side by side, in one run: rdmafs over iWARP,
// over RoCE and over TCP, and go-fuse's loopback example, all over the same directory.
//
// It prints medians over the rounds and ratios. Absolute figures mean little on
// a shared machine; the mounts take turns with each workload so that what disturbs
// one disturbs all.
//
// With -against it compares two builds instead: each mount and its embedded
// server beside those of the build in another directory.
package main

import (
	"cmp"
	"flag"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/rdmafs/rdmafs/test/bench/compare"
)

func main() {
	log.SetFlags(0)
	log.SetPrefix("bench: ")
	bin := flag.String("bin", "bin", "directory of rdmafs, rdmafs-nfsd and loopback")
	rounds := flag.Int("rounds", 0, "rounds, each of which runs every workload once on every mount; 0 means 3, or 12 smaller ones with -against")
	only := flag.String("systems", "iwarp,roce,tcp,loopback", "mounts to measure; the last one is the baseline")
	against := flag.String("against", "", "directory of rdmafs and rdmafs-nfsd of another build: compare with that")
	flag.Parse()
	if err := run(*bin, *against, *rounds, strings.Split(*only, ",")); err != nil {
		log.Fatal(err)
	}
}

func run(bin, against string, rounds int, only []string) (err error) {
	size := compare.Size{FileMiB: 256, SmallFiles: 2000, ListFiles: 10000, Random: 3 * time.Second, CPU: true}
	if bin, err = filepath.Abs(bin); err != nil {
		return err
	}
	if against != "" {
		if against, err = filepath.Abs(against); err != nil {
			return err
		}
		// More and smaller rounds: of two builds the ratio in each counts.
		size.FileMiB, size.SmallFiles, size.Random = size.FileMiB/4, size.SmallFiles/4, size.Random/4
		rounds = cmp.Or(rounds, 12)
		only = slices.DeleteFunc(only, func(name string) bool { return name == loopback })
	}
	rounds = cmp.Or(rounds, 3)
	work, err := os.MkdirTemp("", "rdmafs-bench.")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	systems, stop, err := newSystems(bin, against, work, only)
	if err != nil {
		return err
	}
	defer stop()
	results, err := compare.Run(systems, rounds, size, func(line string) { log.Print(line) })
	if err != nil {
		return err
	}
	if against != "" {
		return reportChange(only, results, rounds, against)
	}
	return report(systems, results, rounds)
}

// report prints a row a metric: each mount's median, then each one's ratio to
// the last mount, the baseline.
func report(systems []*compare.System, results *compare.Results, rounds int) error {
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	base := systems[len(systems)-1].Name
	fmt.Fprintf(w, "median of %d rounds\tunit", rounds)
	for _, s := range systems {
		fmt.Fprintf(w, "\t%s", s.Name)
	}
	for _, s := range systems[:len(systems)-1] {
		fmt.Fprintf(w, "\t%s / %s", s.Name, base)
	}
	fmt.Fprintln(w)
	for _, m := range results.Metrics {
		fmt.Fprintf(w, "%s\t%s", m.Name, m.Unit)
		for _, s := range systems {
			fmt.Fprintf(w, "\t%.0f", results.Median(m.Name, s.Name))
		}
		for _, s := range systems[:len(systems)-1] {
			if results.Median(m.Name, base) == 0 {
				fmt.Fprint(w, "\t–") // too little to be measured
				continue
			}
			fmt.Fprintf(w, "\t%.2f", results.Ratio(m.Name, s.Name, base))
		}
		fmt.Fprintln(w)
	}
	return w.Flush()
}

// tolerance is how much worse a row may be than before.
const tolerance = 0.05

// reportChange prints a row a mount and metric: both builds' medians, and how
// much better the newer one did in the rounds: the median and the quartiles.
func reportChange(names []string, results *compare.Results, rounds int, against string) error {
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "median of %d rounds\tmount\tunit\t%s\tnow\tgain\thalf of the rounds\n", rounds, against)
	rows, worse, unsure := 0, 0, 0
	for _, m := range results.Metrics {
		for _, name := range names {
			fmt.Fprintf(w, "%s\t%s\t%s\t%.0f\t%.0f", m.Name, name, m.Unit,
				results.Median(m.Name, before(name)), results.Median(m.Name, name))
			rows++
			mid, low, high, ok := results.Gain(m, name, before(name))
			if !ok {
				fmt.Fprintln(w, "\t–\t–") // too little to be measured
				continue
			}
			fmt.Fprintf(w, "\t%.2f\t%.2f to %.2f", mid, low, high)
			switch {
			case mid >= 1-tolerance:
			case high >= 1:
				unsure++
				fmt.Fprint(w, "\tperhaps worse")
			default:
				worse++
				fmt.Fprint(w, "\tworse")
			}
			fmt.Fprintln(w)
		}
	}
	if err := w.Flush(); err != nil {
		return err
	}
	fmt.Printf("A gain above 1 is better, of costs too. Of %d rows %d are worse by more than %.0f %%; "+
		"%d more are, but not in a quarter of the rounds or more.\n", rows, worse, 100*tolerance, unsure)
	return nil
}
