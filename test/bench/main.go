// Command bench measures mounts side by side, in one run: rdmafs over iWARP,
// rdmafs over TCP, and go-fuse's loopback example, all over the same directory.
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
	"slices"
	"strings"
	"text/tabwriter"
)

func main() {
	log.SetFlags(0)
	log.SetPrefix("bench: ")
	bin := flag.String("bin", "bin", "directory of rdmafs, rdmafs-nfsd and loopback")
	rounds := flag.Int("rounds", 3, "rounds, each of which runs every mount once")
	only := flag.String("systems", "iwarp,tcp,loopback", "mounts to measure; the last one is the baseline")
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
	results := make(map[string]map[string][]float64) // metric → system → values
	for round := range rounds {
		for _, s := range systems {
			for _, m := range metrics {
				v, err := m.measure(s)
				if err != nil {
					return fmt.Errorf("%s on %s: %w", m.name, s.name, err)
				}
				log.Printf("round %d: %s: %s: %.0f %s", round+1, s.name, m.name, v, m.unit)
				if results[m.name] == nil {
					results[m.name] = make(map[string][]float64)
				}
				results[m.name][s.name] = append(results[m.name][s.name], v)
			}
		}
	}
	return report(systems, results, rounds)
}

func median(v []float64) float64 {
	v = slices.Sorted(slices.Values(v))
	n := len(v)
	if n%2 == 1 {
		return v[n/2]
	}
	return (v[n/2-1] + v[n/2]) / 2
}

// report prints a row a metric: each mount's median, then each one's ratio to
// the last mount, the baseline. All metrics are rates: more is better.
func report(systems []*system, results map[string]map[string][]float64, rounds int) error {
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	base := systems[len(systems)-1].name
	fmt.Fprintf(w, "median of %d rounds\tunit", rounds)
	for _, s := range systems {
		fmt.Fprintf(w, "\t%s", s.name)
	}
	for _, s := range systems[:len(systems)-1] {
		fmt.Fprintf(w, "\t%s / %s", s.name, base)
	}
	if len(systems) > 2 {
		fmt.Fprintf(w, "\t%s / %s", systems[0].name, systems[1].name)
	}
	fmt.Fprintln(w)
	for _, m := range metrics {
		fmt.Fprintf(w, "%s\t%s", m.name, m.unit)
		r := results[m.name]
		for _, s := range systems {
			fmt.Fprintf(w, "\t%.0f", median(r[s.name]))
		}
		for _, s := range systems[:len(systems)-1] {
			fmt.Fprintf(w, "\t%.2f", median(r[s.name])/median(r[base]))
		}
		if len(systems) > 2 {
			fmt.Fprintf(w, "\t%.2f", median(r[systems[0].name])/median(r[systems[1].name]))
		}
		fmt.Fprintln(w)
	}
	return w.Flush()
}
