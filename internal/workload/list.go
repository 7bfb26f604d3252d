package workload

import (
	"fmt"
	"os/exec"
)

// list is the directory that is listed.
const list = "list"

func (r *Run) haveList() error { return r.have(list, r.Size.ListFiles, nil) }

// names lists a directory as ls does without options.
func (r *Run) names() error {
	return r.measure(func() (int, error) {
		l, err := r.Place.ReadDir(list)
		return len(l), err
	})
}

// namesAndStat asks for the attributes of each file as well.
func (r *Run) namesAndStat() error {
	return r.measure(func() (int, error) {
		l, err := r.Place.ReadDir(list)
		for _, e := range l {
			if r.ctx.Err() != nil {
				break
			}
			if _, err := r.Place.Lstat(list + "/" + e.Name()); err != nil {
				return 0, err
			}
		}
		return len(l), err
	})
}

// lsLong runs ls -l, which asks for ACLs, too.
func (r *Run) lsLong() error {
	dir, ok := r.Place.(Dir)
	if !ok {
		return errNoPath
	}
	return r.measure(func() (int, error) { return r.files, r.command("ls", "-l", dir.path(list)) })
}

var errNoPath = &SkipError{"programs need a mount"}

// command runs a program, whose output is of use only when it fails.
func (r *Run) command(name string, args ...string) error {
	out, err := exec.CommandContext(r.ctx, name, args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w: %.200s", name, err, out)
	}
	return nil
}
