package version

import (
	"runtime"
	"runtime/debug"
	"testing"
)

// TestRead: what Go writes into a program is taken over, and what it left out is
// said to be unknown.
func TestRead(t *testing.T) {
	b := &debug.BuildInfo{GoVersion: "go1.26.0", Main: debug.Module{Version: "v1.2.3+dirty"}, Settings: []debug.BuildSetting{
		{Key: "CGO_ENABLED", Value: "1"}, {Key: "GOARCH", Value: "arm64"}, {Key: "GOOS", Value: "linux"},
		{Key: "vcs.revision", Value: "0123abcd"}, {Key: "vcs.time", Value: "2026-11-22T10:00:00Z"}, {Key: "vcs.modified", Value: "true"},
	}}
	want := Info{Version: "v1.2.3+dirty", Commit: "0123abcd", CommitTime: "2026-11-22T10:00:00Z", Modified: true, Go: "go1.26.0", Platform: "linux/arm64", Cgo: true}
	if got := read(b); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if got := read(&debug.BuildInfo{}).Version; got != Unknown {
		t.Errorf("without a repository: version %q", got)
	}
	if got := Read(); got.Go != runtime.Version() || got.Platform != runtime.GOOS+"/"+runtime.GOARCH {
		t.Errorf("this program: %+v", got)
	}
}
