// Command bench measures mounts side by side, in one run: rdmafs over iWARP,
// over RoCE and over TCP, and go-fuse's loopback example, all over the same directory.
//
// It prints medians over the rounds and ratios. Absolute figures mean little on
// a shared machine; the mounts take turns in each round so that what disturbs
// one disturbs all.
package main

import (
	"flag"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/rdmafs/rdmafs/test/bench/compare"
)

func main() {
	log.SetFlags(0)
	log.SetPrefix("bench: ")
	bin := flag.String("bin", "bin", "directory of rdmafs, rdmafs-nfsd and loopback")
	rounds := flag.Int("rounds", 3, "rounds, each of which runs every mount once")
	only := flag.String("systems", "iwarp,roce,tcp,loopback", "mounts to measure; the last one is the baseline")
	flag.Parse()
	if err := run(*bin, *rounds, strings.Split(*only, ",")); err != nil {
		log.Fatal(err)
	}
}

func run(bin string, rounds int, only []string) (err error) {
	bin, err = filepath.Abs(bin)
	if err != nil {
		return err
	}
	work, err := os.MkdirTemp("", "rdmafs-bench.")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	systems, stop, err := newSystems(bin, work, only)
	if err != nil {
		return err
	}
	defer stop()
	size := compare.Size{FileMiB: 256, SmallFiles: 2000, ListFiles: 10000, Random: 3 * time.Second, CPU: true}
	results, err := compare.Run(systems, rounds, size, func(line string) { log.Print(line) })
	if err != nil {
		return err
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
