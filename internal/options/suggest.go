package options

import "slices"

// nearest is the name in the table that a misspelt one most likely stands for; "" if none
// is near. What is refused is no advice.
func nearest(word string) (name string) {
	best := min(2, (len(word)-1)/2) + 1 // changed, missing or further letters, and one too many
	for _, o := range Table {
		if o.Kind == Refused {
			continue
		}
		if d := distance(word, o.Name, best); d < best {
			name, best = o.Name, d
		}
	}
	return name
}

// distance is how many letters must be changed, left out, put in or exchanged with their
// neighbour to make b of a (optimal string alignment), or limit if that is less.
func distance(a, b string, limit int) int {
	if len(a)-len(b) >= limit || len(b)-len(a) >= limit {
		return limit
	}
	var before []int
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		next := make([]int, len(b)+1)
		next[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			next[j+1] = min(row[j]+cost, row[j+1]+1, next[j]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				next[j+1] = min(next[j+1], before[j-1]+1)
			}
		}
		before, row = row, next
		if slices.Min(row) >= limit {
			return limit
		}
	}
	return min(row[len(b)], limit)
}
