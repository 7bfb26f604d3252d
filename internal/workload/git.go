package workload

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
)

// clone is where a repository is cloned to.
const clone = "clone"

// git runs git without anybody's configuration.
func git(ctx context.Context, args ...string) error {
	c := exec.CommandContext(ctx, "git", append([]string{"-c", "safe.directory=*", "-c", "gc.auto=0", "-c", "init.defaultBranch=main"}, args...)...)
	const at = "2024-01-01T00:00:00Z"
	c.Env = []string{"PATH=" + os.Getenv("PATH"), "GIT_CONFIG_NOSYSTEM=1", "HOME=/nonexistent", "LC_ALL=C",
		"GIT_AUTHOR_NAME=bench", "GIT_AUTHOR_EMAIL=bench@localhost", "GIT_AUTHOR_DATE=" + at,
		"GIT_COMMITTER_NAME=bench", "GIT_COMMITTER_EMAIL=bench@localhost", "GIT_COMMITTER_DATE=" + at}
	if out, err := c.CombinedOutput(); err != nil {
		return fmt.Errorf("git %s: %w: %.200s", args[0], err, out)
	}
	return nil
}

// haveOrigin makes a repository of the tree on this machine, once for all runs that
// share Scratch.
func (r *Run) haveOrigin() (string, error) {
	if _, err := exec.LookPath("git"); err != nil {
		return "", &SkipError{"git is not installed"}
	}
	if _, ok := r.Place.(Dir); !ok {
		return "", errNoPath
	}
	if r.Scratch == "" {
		return "", &SkipError{"there is no directory for the repository that is to be cloned"}
	}
	repo := filepath.Join(r.Scratch, "origin-"+strconv.Itoa(r.Size.TreeFiles))
	if _, err := os.Stat(filepath.Join(repo, "ready")); err == nil {
		return repo, nil
	}
	if err := os.RemoveAll(repo); err != nil {
		return "", err
	}
	if err := os.MkdirAll(repo, 0o755); err != nil {
		return "", err
	}
	at := &Run{Place: Dir(repo), Size: Size{TreeFiles: r.Size.TreeFiles}, ctx: r.ctx}
	if err := at.haveTree(); err != nil {
		return "", err
	}
	for _, args := range [][]string{{"init", "-q"}, {"add", tree}, {"commit", "-q", "-m", "tree"}} {
		if err := git(r.ctx, append([]string{"-C", repo}, args...)...); err != nil {
			return "", err
		}
	}
	return repo, os.WriteFile(filepath.Join(repo, "ready"), nil, 0o644)
}

func (r *Run) withoutClone() error {
	if _, err := r.haveOrigin(); err != nil {
		return err
	}
	return r.removeAll(clone)
}

func (r *Run) gitClone() error {
	repo, err := r.haveOrigin()
	if err != nil {
		return err
	}
	return r.measure(func() (int, error) {
		return r.Size.TreeFiles, git(r.ctx, "clone", "-q", repo, r.Place.(Dir).path(clone))
	})
}

func (r *Run) haveClone() error {
	repo, err := r.haveOrigin()
	if err != nil {
		return err
	}
	to := r.Place.(Dir).path(clone)
	if git(r.ctx, "-C", to, "rev-parse", "-q", "--verify", "HEAD") == nil {
		return nil
	}
	if err := r.removeAll(clone); err != nil {
		return err
	}
	return git(r.ctx, "clone", "-q", repo, to)
}

func (r *Run) gitStatus() error {
	return r.measure(func() (int, error) {
		return r.Size.TreeFiles, git(r.ctx, "--no-optional-locks", "-C", r.Place.(Dir).path(clone), "status", "--porcelain")
	})
}
