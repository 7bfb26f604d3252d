package options_test

import (
	"slices"
	"testing"

	"github.com/rdmafs/rdmafs/internal/options"
)

// TestComplete: the last word of a list is completed, from names or from values.
func TestComplete(t *testing.T) {
	for _, c := range []struct {
		list, before string
		want         []string
	}{
		{"rsi", "", []string{"rsize="}},
		{"hard,wsi", "hard,", []string{"wsize="}},
		{"proto=", "", []string{"proto=rdma", "proto=rdma6", "proto=tcp", "proto=tcp6"}},
		{"soft,local_lock=p", "soft,", []string{"local_lock=posix"}},
		{"rdma=i", "", []string{"rdma=ibv", "rdma=iwarp"}},
		{"rsize=", "", nil},                      // any number
		{"srcaddr=", "", nil},                    // any address
		{"nosuch=", "", nil},                     //
		{"fsc", "", nil},                         // is refused
		{"rsize=65536,rsi", "rsize=65536,", nil}, // is there
	} {
		before, all := options.Complete(c.list)
		var got []string
		for _, x := range all {
			got = append(got, x.Word)
		}
		if before != c.before || !slices.Equal(got, c.want) {
			t.Errorf("%q: got %q before %q, want %q and %q", c.list, before, got, c.before, c.want)
		}
	}
}

// TestCompletedParses: every value that is offered is one that Parse takes.
func TestCompletedParses(t *testing.T) {
	_, all := options.Complete("")
	for _, c := range all {
		if _, remount := options.TakeRemount([]string{c.Word}); remount {
			continue // rdmafs mount takes it out
		}
		if !c.Open {
			if _, err := options.Parse([]string{c.Word}); err != nil {
				t.Errorf("%s is offered: %v", c.Word, err)
			}
			continue
		}
		_, values := options.Complete(c.Word)
		for _, v := range values {
			// Options that complete another one stand behind it.
			if _, err := options.Parse([]string{"vers=4,proto=tcp", v.Word}); err != nil {
				t.Errorf("%s is offered: %v", v.Word, err)
			}
		}
	}
}
