package checkup

import (
	"fmt"
	"slices"
	"testing"

	"github.com/rdmafs/rdmafs/internal/options"
	"github.com/rdmafs/rdmafs/internal/session"
)

// TestWays: the ways that mount may take come first, and each of the
// others names the options that, after those given, make mount take it.
func TestWays(t *testing.T) {
	for words, want := range map[string][]string{
		"":                    {"rdma/iwarp 20049 true", "tcp 2049 false"},
		"proto=tcp":           {"tcp 2049 true", "rdma/iwarp 20049 false"},
		"port=20050":          {"rdma/iwarp 20050 true", "tcp 20050 false", "tcp 2049 false"},
		"port=20049":          {"rdma/iwarp 20049 true", "tcp 2049 false"},
		"proto=tcp,port=1234": {"tcp 1234 true", "rdma/iwarp 20049 false"},
	} {
		opts, err := options.Parse([]string{words})
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, w := range ways(session.Config{Options: opts}) {
			got = append(got, fmt.Sprint(w.Name, " ", w.Port, " ", w.Chosen))
			typed, err := options.Parse([]string{words, w.Options})
			if err != nil || typed.NFSPort() != w.Port || typed.Proto != "tcp" && "rdma/"+typed.RDMA != w.Name || typed.Proto == "tcp" && w.Name != "tcp" {
				t.Errorf("%q: -o %s,%s makes %s with %s to port %d, %v", words, words, w.Options, typed.Proto, typed.RDMA, typed.NFSPort(), err)
			}
		}
		// Builds differ in the providers that they have besides.
		got = slices.DeleteFunc(got, func(w string) bool { return !slices.Contains(want, w) })
		if !slices.Equal(got, want) {
			t.Errorf("%q: %q, want %q", words, got, want)
		}
	}
}
