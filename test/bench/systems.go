package main

import (
	"errors"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rdmafs/rdmafs/test/bench/compare"
)

// The mounts that are not rdmafs over the embedded server.
const (
	encrypted   = "tls" // rdmafs by TCP and TLS
	loopc       = "loopc"
	passthrough = "passthrough_ll" // libfuse's example
	ganesha     = "ganesha"        // rdmafs by TCP over nfs-ganesha
	fuseNFS     = "fuse-nfs"       // libnfs' client over the same
)

// version4 ends the name of a mount of NFS version 4.2; others are of version 3.
const version4 = "-4.2"

// ours are the mounts of rdmafs over the embedded server, all are all.
var (
	ours = []string{"iwarp", "roce", "tcp"}
	all  = append(slices.Clone(ours), "iwarp"+version4, "tcp"+version4, encrypted, ganesha, fuseNFS, passthrough, loopc)
)

// before is the name of a mount of the build that is compared against.
func before(name string) string { return name + " before" }

// missingError says why a mount cannot be measured on this machine.
type missingError string

func (e missingError) Error() string { return string(e) }

// world is what the systems stand on, and how it is ended.
type world struct {
	bin       string
	work      string
	data, mnt string
	builds    []*build // ours first
	other     *ganeshaServer
	ends      []func()
}

func (w *world) stop() {
	for _, end := range slices.Backward(w.ends) {
		end()
	}
}

// newSystems starts the servers that the mounts need and describes the mounts: with
// -against those of the other build beside ours. stop ends what was started.
func newSystems(o options, work string) (systems []*compare.System, stop func(), err error) {
	w := &world{bin: o.bin, work: work, data: filepath.Join(work, "data"), mnt: filepath.Join(work, "mnt")}
	for _, d := range []string{w.data, w.mnt, filepath.Join(work, "scratch")} {
		if err := os.Mkdir(d, 0o755); err != nil {
			return nil, nil, err
		}
	}
	names := all
	switch {
	case o.systems != "":
		names = strings.Split(o.systems, ",")
	case o.against != "":
		names = ours
	}
	w.builds = []*build{{bin: o.bin, host: serverHost, client: clientHost}}
	if o.against != "" {
		w.builds = append(w.builds, &build{bin: o.against, host: againstHost, client: againstClientHost})
	}
	if slices.ContainsFunc(names, func(name string) bool { return strings.HasSuffix(name, version4) }) {
		for _, b := range w.builds {
			b.versions = "3,4.2" // older builds do not know the flag, and have no version 4
		}
	}
	for _, name := range names {
		some, err := w.systems(name)
		var missing missingError
		switch {
		case errors.As(err, &missing):
			log.Printf("%s: left out: %v", name, missing)
		case err != nil:
			w.stop()
			return nil, nil, fmt.Errorf("%s: %w", name, err)
		}
		systems = append(systems, some...)
	}
	if len(systems) == 0 {
		w.stop()
		return nil, nil, errors.New("there is nothing to measure")
	}
	return systems, w.stop, nil
}

// systems are those of a name: two where two builds have it.
func (w *world) systems(name string) ([]*compare.System, error) {
	switch name {
	case loopc:
		return w.local(loopc, filepath.Join(w.bin, loopc), func(dir string) []string { return []string{dir, w.data} })
	case passthrough:
		bin := filepath.Join(w.bin, passthrough)
		if _, err := os.Stat(bin); err != nil {
			return nil, missingError("it is not built: that needs gcc, pkg-config and the examples of libfuse3-dev")
		}
		return w.local(passthrough, bin, func(dir string) []string { return []string{"-f", "-o", "max_idle_threads=10,source=" + w.data, dir} })
	case ganesha, fuseNFS:
		return w.overGanesha(name)
	}
	var some []*compare.System
	for i, b := range w.builds {
		if i > 0 && name == encrypted {
			continue // it may not know TLS
		}
		if b.stop == nil {
			if err := b.start(w.data, w.work); err != nil {
				return nil, err
			}
			w.ends = append(w.ends, b.stop)
		}
		s := b.system(name, w.data, w.mnt, "")
		if s == nil {
			return nil, errors.New("no mount is called so")
		}
		if i > 0 {
			s.Name = before(name)
		}
		some = append(some, s)
	}
	return some, nil
}

// local is a program that shows a directory by FUSE, from the foreground.
func (w *world) local(name, bin string, args func(dir string) []string) ([]*compare.System, error) {
	f := foreground{}
	return []*compare.System{{Name: name, Dir: w.mnt, Data: w.data,
		Mount:   func(dir string) error { return f.mount(dir, bin, args(dir)...) },
		Unmount: f.unmount, PID: f.pid,
	}}, nil
}

// overGanesha are mounts of an nfs-ganesha. What a workload needs is made through
// them: ganesha would not know of anything else.
func (w *world) overGanesha(name string) ([]*compare.System, error) {
	program := ""
	if name == fuseNFS {
		var err error
		if program, err = exec.LookPath(fuseNFS); err != nil {
			return nil, missingError("no fuse-nfs in PATH")
		}
	}
	if w.other == nil {
		other, err := startGanesha(w.work)
		if err != nil {
			return nil, err
		}
		w.other = other
		w.ends = append(w.ends, other.stop)
	}
	if name == fuseNFS {
		f := foreground{}
		return []*compare.System{{Name: name, Dir: w.mnt,
			Mount:   func(dir string) error { return f.mount(dir, program, w.other.url(), dir, "-f") },
			Unmount: f.unmount, PID: f.pid,
		}}, nil
	}
	s := rdmafs(w.bin, w.other.source(), w.other.options())
	s.Name, s.Dir = name, w.mnt
	return []*compare.System{s}, nil
}
