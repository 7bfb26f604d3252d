package options

import "strings"

// Completion is what an option that is being typed may become.
type Completion struct {
	// Word replaces the last word of the list.
	Word string
	// Open: a value is to follow.
	Open    bool
	Meaning string
}

// Complete returns what the last word of a list may become, in the order of Table,
// and the part of the list before it. Options that the list has, and those that are
// refused, are left out.
func Complete(list string) (before string, all []Completion) {
	at := strings.LastIndexByte(list, ',') + 1
	before, typed := list[:at], list[at:]
	name, value, has := strings.Cut(typed, "=")
	if has {
		if o := byName[name]; o != nil && o.Kind != Refused {
			for _, v := range o.Values() {
				if strings.HasPrefix(v, value) {
					all = append(all, Completion{Word: name + "=" + v})
				}
			}
		}
		return before, all
	}
	given := map[string]bool{}
	for word := range strings.SplitSeq(before, ",") {
		name, _, _ := strings.Cut(word, "=")
		given[name] = true
	}
	for k := range Table {
		o := &Table[k]
		if o.Kind == Refused || given[o.Name] || !strings.HasPrefix(o.Name, typed) {
			continue
		}
		c := Completion{Word: o.Name, Meaning: o.Meaning}
		if o.Value != "" {
			c.Word, c.Open = o.Name+"=", true
		}
		all = append(all, c)
	}
	return before, all
}

// Values are the values that an option can have, where they are words and not
// numbers, names or addresses.
func (o *Option) Values() []string {
	switch {
	case o.Name == "rdma":
		return append([]string{"auto"}, Providers...)
	case o.Value == "" || strings.ToUpper(o.Value) == o.Value && strings.ToLower(o.Value) != o.Value:
		return nil // "N" or "ADDRESS" stands for something
	}
	var words []string
	for v := range strings.SplitSeq(o.Value, "|") {
		if strings.ToLower(v) == v { // not "unix:PATH"
			words = append(words, v)
		}
	}
	return words
}
