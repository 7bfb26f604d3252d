package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"time"

	"github.com/rdmafs/rdmafs"
	"github.com/rdmafs/rdmafs/internal/bench"
	"github.com/rdmafs/rdmafs/internal/providers"
	"github.com/rdmafs/rdmafs/internal/workload"
)

// benchLibrary is an export used without FUSE, in this process.
type benchLibrary struct {
	target, words string
	own           string // in the export; empty until it is made
	fsys          *rdmafs.FS
}

// Fresh opens the export, instead of the one opened before.
func (l *benchLibrary) Fresh(ctx context.Context) (workload.Place, error) {
	if err := l.close(); err != nil {
		return nil, err
	}
	f, err := rdmafs.Open(ctx, l.target, &rdmafs.Options{Mount: l.words, Buffers: providers.PoolBytes})
	if err != nil {
		return nil, err
	}
	l.fsys = f
	for l.own == "" {
		own := fmt.Sprintf("%s%d", benchDir, rand.Uint64())
		err := f.Mkdir(own, 0o700)
		switch {
		case errors.Is(err, fs.ErrExist):
			continue
		case err != nil:
			return nil, fmt.Errorf("the export cannot be written to: %w", err)
		}
		l.own = own
	}
	return library{f, l.own + "/"}, nil
}

func (l *benchLibrary) close() error {
	if l.fsys == nil {
		return nil
	}
	f := l.fsys
	l.fsys = nil
	return f.Close(context.Background())
}

// Meter counts this process, which has the workload's own work in it.
func (l *benchLibrary) Meter() workload.Meter {
	f := l.fsys
	return workload.ProcessMeter(os.Getpid(), func() (uint64, error) { return f.Status().Calls, nil })
}

func (l *benchLibrary) Used() bench.Used {
	s := l.fsys.Status()
	return bench.Used{Target: l.target, Way: bench.Library, Transport: s.Transport, Server: s.Server, Version: s.Version, Cold: true}
}

// Room: the server says so when a write finds none.
func (l *benchLibrary) Room() (uint64, bool) { return 0, false }

func (l *benchLibrary) End() error {
	var err error
	if l.own != "" && l.fsys == nil {
		_, err = l.Fresh(context.Background())
	}
	if l.own != "" && err == nil {
		err = errors.Join(workload.Clean(library{l.fsys, l.own + "/"}), l.fsys.Remove(l.own))
	}
	return errors.Join(err, l.close())
}

// library is a directory of an FS; dir ends in a slash.
type library struct {
	f   *rdmafs.FS
	dir string
}

func (l library) OpenFile(name string, flag int, perm fs.FileMode) (workload.File, error) {
	f, err := l.f.OpenFile(l.dir+name, flag, perm)
	if err != nil {
		return nil, err // not a File that holds nil
	}
	return f, nil
}
func (l library) Lstat(name string) (fs.FileInfo, error)     { return l.f.Lstat(l.dir + name) }
func (l library) ReadDir(name string) ([]fs.DirEntry, error) { return l.f.ReadDir(l.dir + name) }
func (l library) Mkdir(name string) error                    { return l.f.Mkdir(l.dir+name, 0o755) }
func (l library) Remove(name string) error                   { return l.f.Remove(l.dir + name) }
func (l library) Rmdir(name string) error                    { return l.f.Remove(l.dir + name) }
func (l library) Rename(from, to string) error               { return l.f.Rename(l.dir+from, l.dir+to) }
func (l library) Chtimes(name string, t time.Time) error     { return l.f.Chtimes(l.dir+name, t, t) }
