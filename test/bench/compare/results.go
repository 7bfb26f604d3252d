package compare

import (
	"slices"

	"github.com/rdmafs/rdmafs/internal/workload"
)

// Results are the values of all rounds, as -json writes them.
type Results struct {
	Machine   *Machine   `json:"machine,omitempty"`
	Systems   []string   `json:"systems"`
	Workloads []Workload `json:"workloads"` // in the order measured
	// Rates are by workload and system, one value a round.
	Rates map[string]map[string][]float64 `json:"rates"`
	// Costs are what an operation cost the client, by kind, workload and system. An
	// operation of a workload in MiB/s is 1 MiB.
	Costs map[workload.Kind]map[string]map[string][]float64 `json:"costs"`
	// Skipped has the reason why a system has no value, by workload and system.
	Skipped map[string]map[string]string `json:"skipped,omitempty"`
	Memory  []Memory                     `json:"memory,omitempty"`
}

// Workload is a row.
type Workload struct {
	Name  string `json:"name"`
	Unit  string `json:"unit"`
	Bytes bool   `json:"bytes,omitempty"`
}

func newResults(systems []*System, all []*workload.Workload) *Results {
	r := &Results{Rates: map[string]map[string][]float64{}, Costs: map[workload.Kind]map[string]map[string][]float64{},
		Skipped: map[string]map[string]string{}}
	for _, s := range systems {
		r.Systems = append(r.Systems, s.Name)
	}
	for _, w := range all {
		r.Workloads = append(r.Workloads, Workload{w.Name, w.Unit, w.Bytes})
	}
	return r
}

func add(to map[string]map[string][]float64, workload, system string, v float64) {
	if to[workload] == nil {
		to[workload] = map[string][]float64{}
	}
	to[workload][system] = append(to[workload][system], v)
}

func (r *Results) add(w, system string, res *workload.Result) {
	add(r.Rates, w, system, res.Rate())
	for k := range res.Spent {
		v, _ := res.Per(k)
		if r.Costs[k] == nil {
			r.Costs[k] = map[string]map[string][]float64{}
		}
		add(r.Costs[k], w, system, v)
	}
}

func (r *Results) skip(workload, system, reason string) {
	if r.Skipped[workload] == nil {
		r.Skipped[workload] = map[string]string{}
	}
	r.Skipped[workload][system] = reason
}

// Spread is the median and the quartiles of some values.
type Spread struct{ Low, Mid, High float64 }

// spread of no values is not ok.
func spread(v []float64) (s Spread, ok bool) {
	if len(v) == 0 {
		return s, false
	}
	v = slices.Sorted(slices.Values(v))
	n := len(v)
	return Spread{v[n/4], median(v), v[n-1-n/4]}, true
}

// median of values in order.
func median(v []float64) float64 {
	n := len(v)
	if n%2 == 1 {
		return v[n/2]
	}
	return (v[n/2-1] + v[n/2]) / 2
}

// Median of values in any order; of none it is 0.
func Median(v []float64) float64 {
	s, _ := spread(v)
	return s.Mid
}

// Rate is the spread of a system's rates.
func (r *Results) Rate(workload, system string) (Spread, bool) {
	return spread(r.Rates[workload][system])
}

// Cost is the median of what an operation has cost.
func (r *Results) Cost(k workload.Kind, workload, system string) (float64, bool) {
	s, ok := spread(r.Costs[k][workload][system])
	return s.Mid, ok
}

// Gain is how much better a system did than base: the ratios of the rounds. ok is
// false where one of them has no value in a round.
func (r *Results) Gain(workload, system, base string) (Spread, bool) {
	return gain(r.Rates[workload][system], r.Rates[workload][base])
}

// CostGain is Gain of a cost, which is above 1 where less was spent.
func (r *Results) CostGain(k workload.Kind, workload, system, base string) (Spread, bool) {
	return gain(r.Costs[k][workload][base], r.Costs[k][workload][system])
}

func gain(a, b []float64) (Spread, bool) {
	if len(a) != len(b) {
		return Spread{}, false
	}
	var gains []float64
	for i := range a {
		if a[i] <= 0 || b[i] <= 0 {
			return Spread{}, false // too little to be measured
		}
		gains = append(gains, a[i]/b[i])
	}
	return spread(gains)
}
