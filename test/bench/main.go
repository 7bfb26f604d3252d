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
	"text/tabwriter"
)

func main() {
	log.SetFlags(0)
	log.SetPrefix("bench: ")
	bin := flag.String("bin", "bin", "directory of rdmafs, rdmafs-nfsd and loopback")
	rounds := flag.Int("rounds", 3, "rounds, each of which runs every mount once")
	flag.Parse()
	if err := run(*bin, *rounds); err != nil {
		log.Fatal(err)
	}
}

func run(bin string, rounds int) (err error) {
	bin, err = filepath.Abs(bin)
	if err != nil {
		return err
	}
	work, err := os.MkdirTemp("", "rdmafs-bench.")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	systems, stop, err := newSystems(bin, work)
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
				if results[m.name] == nil {
					results[m.name] = make(map[string][]float64)
				}
				results[m.name][s.name] = append(results[m.name][s.name], v)
			}
			log.Printf("round %d: %s done", round+1, s.name)
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
	fmt.Fprintf(w, "\t%s / %s\n", systems[0].name, systems[1].name)
	for _, m := range metrics {
		fmt.Fprintf(w, "%s\t%s", m.name, m.unit)
		r := results[m.name]
		for _, s := range systems {
			fmt.Fprintf(w, "\t%.0f", median(r[s.name]))
		}
		for _, s := range systems[:len(systems)-1] {
			fmt.Fprintf(w, "\t%.2f", median(r[s.name])/median(r[base]))
		}
		fmt.Fprintf(w, "\t%.2f\n", median(r[systems[0].name])/median(r[systems[1].name]))
	}
	return w.Flush()
}
