package bench

import "fmt"

// hints say where the time goes.
func hints(r *Report) []string {
	var all []string
	if !r.Cold {
		all = append(all, "What is \"cold\" was not: caches may have had it, as nothing was mounted anew. server:/export is, for each row.")
	}
	by := map[string]*Result{}
	for i := range r.Results {
		by[r.Results[i].Workload] = &r.Results[i]
	}
	trip, of := callTime(by)
	if trip > 0 {
		all = append(all, fmt.Sprintf("A call to the server, with all that is around it here, takes %.0f µs (%s).", trip, of))
	}
	for _, h := range []struct{ name, one string }{
		{"create", "Making a file"},
		{"create + write 4 KiB", "Making a file of 4 KiB"},
		{"open + read + close", "Reading a file of 4 KiB"},
		{"rename", "Renaming a file"},
		{"untar", "Unpacking a file"},
	} {
		s := by[h.name]
		if s == nil || s.Median == nil || s.Calls == nil || trip == 0 || *s.Calls < 1 {
			continue
		}
		share := *s.Calls * trip / *s.Median
		switch {
		case share > 1.25:
			all = append(all, fmt.Sprintf("%s takes %.1f calls, some of them while nobody waits.", h.one, *s.Calls))
		case share > 0.6:
			all = append(all, fmt.Sprintf("%s takes %.1f calls, one after the other: nearly all of its time goes into waiting for them.", h.one, *s.Calls))
		default:
			all = append(all, fmt.Sprintf("%s takes %.1f calls, which would be %.0f %% of its time: the server takes longer for these than for others, or this machine does.", h.one, *s.Calls, 100*share))
		}
	}
	if one, many := by["random read 4 KiB, depth 1"], by["random read 4 KiB, 64 threads"]; one != nil && many != nil && one.Rate > 0 && many.Rate > 0 {
		all = append(all, fmt.Sprintf("64 threads read %.1f times as fast as one.", many.Rate/one.Rate))
	}
	for _, s := range r.Results {
		if s.CPU != nil && s.Seconds > 0 {
			if busy := *s.CPU * float64(s.Count) / 1e6 / s.Seconds; busy > 0.9 && s.Unit == "MiB/s" {
				all = append(all, fmt.Sprintf("%s kept %.1f processors busy on this side: the client, not the server, may be the limit.", s.Workload, busy))
			}
		}
	}
	return all
}

// callTime is how long a call takes, in microseconds: the median of operations that
// are one call each. It is 0 where nothing tells.
func callTime(by map[string]*Result) (us float64, of string) {
	for _, name := range []string{"stat, cold", "random read 4 KiB, depth 1"} {
		s := by[name]
		if s != nil && s.Median != nil && s.Calls != nil && *s.Calls > 0.9 && *s.Calls < 1.1 {
			return *s.Median, "median of " + name
		}
	}
	return 0, ""
}
