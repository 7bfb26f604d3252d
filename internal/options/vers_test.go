package options

import (
	"slices"
	"strings"
	"testing"
)

func TestVersions(t *testing.T) {
	for list, want := range map[string][]uint32{
		"":                        nil,
		"vers=3":                  nil,
		"vers=4":                  {2, 1},
		"nfsvers=4.1":             {1},
		"v4.2":                    {2},
		"vers=4,minorversion=1":   {1},
		"vers=4,minorversion=2":   {2},
		"vers=4.2,vers=3":         nil,
		"vers=3,v4":               {2, 1},
		"vers=4.1,minorversion=1": {1},
	} {
		o, err := Parse([]string{list})
		if err != nil {
			t.Errorf("%s: %v", list, err)
		}
		if got := o.Minors(); !slices.Equal(got, want) {
			t.Errorf("%s: minor versions %v, want %v", list, got, want)
		}
	}
	for _, list := range []string{"minorversion=1,vers=4", "vers=3,minorversion=1", "minorversion", "vers=4,minorversion=0", "vers=4,minorversion=3"} {
		if _, err := Parse([]string{list}); err == nil || !strings.Contains(err.Error(), "minorversion") {
			t.Errorf("%s: %v", list, err)
		}
	}
}
