package options

import (
	"slices"
	"strings"
	"testing"
)

// TestRemountAuto: the version of a mount whose server has chosen it stays, and no other can be asked for.
func TestRemountAuto(t *testing.T) {
	o := Default()
	o.Vers = "4"
	if n, err := o.Remounted("vers=auto,ro"); err != nil || n.Vers != "4" || !n.ReadOnly {
		t.Errorf("%+v, %v", n, err)
	}
	if _, err := o.Remounted("vers=3"); err == nil {
		t.Error("the version of a mount is changed")
	}
	// mount(8) hands over the line of fstab, of which the version followed.
	o.Vers = "3"
	if n, err := o.Remounted("mountvers=3,ro"); err != nil || n.Vers != "3" {
		t.Errorf("%+v, %v", n, err)
	}
}

func TestVersions(t *testing.T) {
	for list, want := range map[string][]uint32{
		"":                        nil,
		"mountport=2049":          nil,
		"nlmport=2049,vers=4.1":   {1},
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
	for list, want := range map[string][]string{
		"": {"4", "3"}, "vers=4": {"4"}, "v4.1": {"4.1"}, "vers=auto": {"4", "3"}, "nfsvers=auto,vers=3": {"3"},
		"mountport=2049": {"3"}, "mounthost=h": {"3"}, "mountaddr=10.0.0.1": {"3"}, "mountproto=tcp,hard": {"3"}, "mountvers=3": {"3"}, "nlmport=4045": {"3"},
		"mountport=2049,vers=auto": {"4", "3"}, "v4,mountport=2049": {"4"},
	} {
		o, err := Parse([]string{list})
		if got := o.Versions(); err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: versions %v, %v, want %v", list, got, err, want)
		}
	}
	for _, list := range []string{"vers=auto,minorversion=1", "minorversion=1,vers=4", "vers=3,minorversion=1", "minorversion", "vers=4,minorversion=0", "vers=4,minorversion=3"} {
		if _, err := Parse([]string{list}); err == nil || !strings.Contains(err.Error(), "minorversion") {
			t.Errorf("%s: %v", list, err)
		}
	}
}
