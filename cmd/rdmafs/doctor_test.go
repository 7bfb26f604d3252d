package main

import (
	"errors"
	"fmt"
	"slices"
	"syscall"
	"testing"

	"github.com/rdmafs/rdmafs/nfsclient/nfs3"
	"github.com/rdmafs/rdmafs/verbs/ibv"
)

func TestParseServer(t *testing.T) {
	for text, want := range map[string]source{
		"server:/export": {"server:/export", "server", "/export"},
		"server":         {"server", "server", ""},
		"10.0.0.5":       {"10.0.0.5", "10.0.0.5", ""},
		"fd00::1":        {"fd00::1", "fd00::1", ""},
		"[fd00::1]":      {"[fd00::1]", "fd00::1", ""},
		"[fd00::1]:/x":   {"[fd00::1]:/x", "fd00::1", "/x"},
		"fe80::1%eth0":   {"fe80::1%eth0", "fe80::1%eth0", ""},
	} {
		if got, err := parseServer(text); err != nil || got != want {
			t.Errorf("%q: %+v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "server:", "server:export", ":/x", "/mnt", "[server]", "[]", "[fd00::1"} {
		if got, err := parseServer(text); err == nil {
			t.Errorf("%q: %+v", text, got)
		}
	}
}

// TestDoctorsWays: the ways that mount may take come first, and each of the
// others names the options that, after those given, make mount take it.
func TestDoctorsWays(t *testing.T) {
	for words, want := range map[string][]string{
		"":                    {"rdma/iwarp 20049 true", "tcp 2049 false"},
		"proto=tcp":           {"tcp 2049 true", "rdma/iwarp 20049 false"},
		"port=20050":          {"rdma/iwarp 20050 true", "tcp 20050 false", "tcp 2049 false"},
		"port=20049":          {"rdma/iwarp 20049 true", "tcp 2049 false"},
		"proto=tcp,port=1234": {"tcp 1234 true", "rdma/iwarp 20049 false"},
	} {
		opts, err := parseOptions([]string{words})
		if err != nil {
			t.Fatal(err)
		}
		m := &mountArgs{opts: opts}
		var got []string
		for _, w := range m.ways("", nil) {
			got = append(got, fmt.Sprint(w.Name, " ", w.Port, " ", w.Chosen))
			typed, err := parseOptions([]string{words, w.Options})
			if err != nil || typed.nfsPort() != w.Port || typed.proto != "tcp" && "rdma/"+typed.rdma != w.Name || typed.proto == "tcp" && w.Name != "tcp" {
				t.Errorf("%q: -o %s,%s makes %s with %s to port %d, %v", words, words, w.Options, typed.proto, typed.rdma, typed.nfsPort(), err)
			}
		}
		// Builds differ in the providers that they have besides.
		got = slices.DeleteFunc(got, func(w string) bool { return !slices.Contains(want, w) })
		if !slices.Equal(got, want) {
			t.Errorf("%q: %q, want %q", words, got, want)
		}
	}
}

func TestExplain(t *testing.T) {
	for _, c := range []struct {
		err          error
		what, remedy string
	}{
		{&connectError{"cannot connect", syscall.ECONNREFUSED, "start it"}, "cannot connect: connection refused", "start it"},
		{fmt.Errorf("tried: %w", &nfs3.MountError{Host: "h", Export: "/e", Why: "no", Hint: "yes"}), "h:/e: no", "yes"},
		{fmt.Errorf("rdma=ibv: %w", &ibv.UnavailableError{Missing: "no device", Remedy: "buy one"}), "no device", "buy one"},
		{errors.New("two\nlines"), "two; lines", ""},
	} {
		if what, remedy := explain(c.err); what != c.what || remedy != c.remedy {
			t.Errorf("%v: %q, %q", c.err, what, remedy)
		}
	}
}
