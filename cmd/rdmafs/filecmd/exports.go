package filecmd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/rdmafs/rdmafs"
	"github.com/rdmafs/rdmafs/internal/filetree"
	"github.com/rdmafs/rdmafs/internal/options"
	"github.com/rdmafs/rdmafs/internal/plain"
	"github.com/rdmafs/rdmafs/internal/providers"
	"github.com/rdmafs/rdmafs/internal/session"
)

// exports are the exports that a command uses.
type exports struct {
	words  string // mount options
	parsed options.Options
	log    *slog.Logger
	open   map[string]*exportTree // by server:/export
	// versions are those of NFS to try at a server, and paths the exports of its list, longest first.
	versions map[string][]string
	paths    map[string][]string
}

func newExports(words []string) (*exports, error) {
	parsed, err := options.Parse(words)
	if err != nil {
		return nil, err
	}
	return &exports{
		words: strings.Join(words, ","), parsed: parsed,
		log:  slog.New(slog.NewTextHandler(plain.Lines(os.Stderr), &slog.HandlerOptions{Level: slog.LevelWarn})),
		open: map[string]*exportTree{}, versions: map[string][]string{}, paths: map[string][]string{},
	}, nil
}

// find is the tree that an operand is in, and its name there. That of a remote one ends with
// ctx.
func (x *exports) find(ctx context.Context, o operand) (filetree.Tree, string, error) {
	if !o.remote {
		return filetree.Local{}, o.text, nil
	}
	host := o.server.Host
	if x.versions[host] == nil {
		x.versions[host] = x.parsed.Versions()
	}
	var failed []error
	for _, vers := range x.versions[host] {
		t, name, err := x.by(ctx, o, vers)
		if err == nil {
			x.versions[host] = []string{vers}
			return t, name, nil
		}
		if failed = append(failed, err); !session.Refuses(err) {
			break
		}
	}
	// The last error lists the exports, unless the server could not be asked for them.
	err := failed[len(failed)-1]
	if session.IsNoExport(failed[0]) && !session.IsNoExport(err) {
		err = failed[0]
	}
	return nil, "", err
}

// by is find with one version of NFS.
func (x *exports) by(ctx context.Context, o operand, vers string) (filetree.Tree, string, error) {
	var first error
	for _, export := range x.candidates(ctx, o, vers) {
		t, err := x.tree(ctx, o, export, vers)
		if err == nil {
			return t, within(o.server.Export, export), nil
		}
		if first == nil {
			first = err
		}
		if !session.IsNoExport(err) {
			return nil, "", err
		}
	}
	return nil, "", first
}

// candidates are the exports that an operand may be in. With version 3 they are those of the server's list that
// hold it, the longest first. With version 4, which needs no list and whose server may have none, and where the list says nothing, they are
// the path and those above it, behind what is open already.
func (x *exports) candidates(ctx context.Context, o operand, vers string) []string {
	var holding []string
	if vers == "3" {
		for _, export := range x.listed(ctx, o) {
			if export == path.Clean(export) && holds(export, o.server.Export) {
				holding = append(holding, export)
			}
		}
		if len(holding) > 0 {
			return holding
		}
	}
	var above []string
	for p := o.server.Export; ; p = path.Dir(p) {
		if _, open := x.open[o.at(p).Text]; open && p != "/" {
			holding = append(holding, p)
		} else {
			above = append(above, p)
		}
		if p == "/" {
			return append(holding, above...)
		}
	}
}

// listed are the exports of a server's list, the longest first.
func (x *exports) listed(ctx context.Context, o operand) []string {
	all, known := x.paths[o.server.Host]
	if !known {
		var err error
		all, err = session.ExportPaths(ctx, session.Config{Source: o.server, Options: x.parsed, Log: x.log})
		if err != nil {
			x.log.Debug(fmt.Sprintf("%s: no list of exports: %v", o.server.Host, err))
		}
		slices.SortFunc(all, func(a, b string) int { return len(b) - len(a) })
		x.paths[o.server.Host] = all
	}
	return all
}

// holds reports whether a clean path is an export's, or below it.
func holds(export, p string) bool {
	return export == "/" || p == export || strings.HasPrefix(p, export+"/")
}

// within is the name of a path in an export that holds it.
func within(p, export string) string {
	if name := strings.Trim(strings.TrimPrefix(p, export), "/"); name != "" {
		return name
	}
	return "."
}

// tree opens an export with one version of NFS.
func (x *exports) tree(ctx context.Context, o operand, export, vers string) (filetree.Tree, error) {
	at := o.at(export)
	if t, open := x.open[at.Text]; open {
		return t, nil
	}
	f, err := rdmafs.Open(ctx, at.Text, &rdmafs.Options{Mount: x.words + ",vers=" + vers, Buffers: providers.PoolBytes, Log: x.log})
	if err != nil {
		return nil, err
	}
	t := &exportTree{f.WithContext(ctx)}
	x.open[at.Text] = t
	return t, nil
}

// close ends the use of all exports. Its error says what was lost.
func (x *exports) close(ctx context.Context) error {
	var errs []error
	for _, t := range x.open {
		errs = append(errs, t.FS.Close(ctx))
	}
	return errors.Join(errs...)
}

// exportTree is an export as a tree.
type exportTree struct{ *rdmafs.FS }

func (t *exportTree) OpenFile(name string, flag int, perm os.FileMode) (filetree.File, error) {
	f, err := t.FS.OpenFile(name, flag, perm)
	if err != nil {
		return nil, err // not a File that holds nil
	}
	return f, nil
}
