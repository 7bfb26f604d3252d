package options

import (
	"slices"
	"strings"
	"testing"
	"time"
)

func TestTakeRemount(t *testing.T) {
	for list, want := range map[string]string{
		"remount": "", "ro,remount,noac": "ro,noac", "rw,remount,user_id=0,group_id=0,max_read=1048576,relatime": "rw,relatime",
	} {
		if got, is := TakeRemount(strings.SplitAfterN(list, ",", 2)); !is || got != want {
			t.Errorf("%q: %q, %v", list, got, is)
		}
	}
	if _, is := TakeRemount([]string{"ro,x-remount,remount=1"}); is {
		t.Error("remount where there is none")
	}
}

func TestRemounted(t *testing.T) {
	o, err := Parse([]string{"tcp,port=1234,rsize=65536,nosuid,noac"})
	if err != nil {
		t.Fatal(err)
	}
	_, err = o.Remounted("proto=tcp,rsize=65536,noddp,nofail,ro,soft,timeo=5,retrans=7,ac,actimeo=9,debug,noexec,rsize=65536")
	if err == nil || !strings.Contains(err.Error(), ": noddp (") {
		t.Errorf("noddp: %v", err)
	}
	n, err := o.Remounted("proto=tcp,rsize=4096,rsize=65536,nofail,ro,soft,timeo=5,retrans=7,ac,actimeo=9,debug,noexec")
	if err != nil {
		t.Fatal(err)
	}
	if !n.ReadOnly || !n.Soft || n.Timeo != 500*time.Millisecond || n.Retrans != 7 || n.NoAC || n.AcDirMax != 9*time.Second || !n.Debug ||
		n.Port != 1234 || !slices.Equal(n.Fuse, []string{"nosuid", "noexec"}) || !slices.Equal(o.Fuse, []string{"nosuid"}) {
		t.Errorf("%+v", n)
	}
	// Every option either can be changed or is refused by its name.
	for _, x := range Table {
		if x.Kind == Refused || x.Name == "remount" {
			continue
		}
		for _, v := range []string{"", "=1", "=3", "=yes", "=2", "=tcp", "=rdma", "=ring", "=1024", "=roce", "=127.0.0.1", "=window", "=8:512", "=all", "=sys"} {
			n, err := o.Remounted(x.Name + v)
			if err == nil {
				if f := n.fixed(); f.Port != o.Port || f.RSize != o.RSize || f.Proto != o.Proto {
					t.Errorf("%s%s: %+v", x.Name, v, n)
				}
			} else if !strings.Contains(err.Error(), x.Name) && !strings.Contains(err.Error(), "acregmin") && !strings.Contains(err.Error(), "version 3 only") {
				t.Errorf("%s%s: %v", x.Name, v, err)
			}
		}
	}
}
