// Package version says which build of rdmafs this program is.
//
// It reads what the Go linker has put into the program, and nothing of the machine:
// the same sources built by the same Go say the same anywhere. The package keeps no
// state and starts no goroutine.
package version

import "runtime/debug"

// Info identifies a build.
type Info struct {
	// Version is the tag that the sources were built from; between tags Go's
	// pseudo-version, which names the commit; Unknown without a repository.
	Version string `json:"version"`
	// Commit is the full hash of the commit, "" without a repository.
	Commit string `json:"commit,omitempty"`
	// CommitTime is when the commit was made (RFC 3339), not when this was built.
	CommitTime string `json:"commit_time,omitempty"`
	// Modified: the sources differed from the commit.
	Modified bool   `json:"modified"`
	Go       string `json:"go"`
	Platform string `json:"platform"` // "linux/amd64"
	// Cgo: built with cgo, which RDMA adapters need.
	Cgo bool `json:"cgo"`
}

// Unknown is the version of a build without a repository and outside the module
// cache.
const Unknown = "(devel)"

// Read says what this program was built from.
func Read() Info {
	b, ok := debug.ReadBuildInfo()
	if !ok {
		return Info{Version: Unknown}
	}
	return read(b)
}

func read(b *debug.BuildInfo) Info {
	i := Info{Version: b.Main.Version, Go: b.GoVersion}
	if i.Version == "" {
		i.Version = Unknown
	}
	var system, architecture string
	for _, s := range b.Settings {
		switch s.Key {
		case "vcs.revision":
			i.Commit = s.Value
		case "vcs.time":
			i.CommitTime = s.Value
		case "vcs.modified":
			i.Modified = s.Value == "true"
		case "GOOS":
			system = s.Value
		case "GOARCH":
			architecture = s.Value
		case "CGO_ENABLED":
			i.Cgo = s.Value == "1"
		}
	}
	i.Platform = system + "/" + architecture
	return i
}
