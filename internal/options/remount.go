package options

import (
	"fmt"
	"reflect"
	"strings"
)

// shown are the words that the mount table shows of a FUSE mount, and that mount(8)
// therefore adds to a remount.
var shown = map[string]bool{"fd": true, "rootmode": true, "user_id": true, "group_id": true, "max_read": true, "blksize": true}

// TakeRemount takes the option remount out of what stood behind -o, and the words by which the
// mount table shows a mount. is says that there was one.
func TakeRemount(lists []string) (rest string, is bool) {
	var words []string
	for word := range strings.SplitSeq(strings.Join(lists, ","), ",") {
		name, _, _ := strings.Cut(word, "=")
		switch {
		case word == "remount":
			is = true
		case word != "" && !shown[name]:
			words = append(words, word)
		}
	}
	return strings.Join(words, ","), is
}

// Remounted is what holds after o was changed by a list of options. What is not in the list
// stays. The error names each option that would change what cannot be changed.
func (o Options) Remounted(list string) (Options, error) {
	n := o
	n.Fuse, n.Notes = nil, nil
	if err := n.parse([]string{list}); err != nil {
		return o, err
	}
	n.keepVersion(&o)
	n.Fuse = append(append([]string(nil), o.Fuse...), n.Fuse...)
	var fixed []string
	for word := range strings.SplitSeq(list, ",") {
		one := o
		// What parse has taken as part of the whole list it takes alone, but for contradictions.
		_ = one.parse([]string{word})
		one.keepVersion(&o)
		if !reflect.DeepEqual(one.fixed(), o.fixed()) {
			fixed = append(fixed, word)
		}
	}
	if !reflect.DeepEqual(n.fixed(), o.fixed()) {
		return o, fmt.Errorf("mount options that cannot be changed: %s (unmount, and mount again)", strings.Join(fixed, ", "))
	}
	return n, nil
}

// keepVersion has the version of a mount stay what was found for it, where the server was to decide.
func (n *Options) keepVersion(o *Options) {
	if n.Vers == versAuto {
		n.Vers = o.Vers
	}
}

// fixed is o without what a remount changes.
func (o Options) fixed() Options {
	o.ReadOnly, o.Soft, o.SoftErr, o.Timeo, o.Retrans = false, false, false, 0, 0
	o.AcRegMin, o.AcRegMax, o.AcDirMin, o.AcDirMax, o.NoAC = 0, 0, 0, 0, false
	o.Debug, o.Log, o.Fuse, o.Notes, o.Sloppy = false, "", nil, nil, false
	return o
}
