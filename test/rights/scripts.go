package rights

import (
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// File is what is there before a script runs.
type File struct {
	Name     string
	Mode     uint32 // with its type
	UID, GID uint32
	To       string // a symbolic link's target
}

// Script is what users do one after the other.
type Script struct {
	Name  string
	Files []File
	Steps []Step
	// Protected: the kernel's settings protected_symlinks and the like decide.
	Protected bool
}

const (
	reg  = unix.S_IFREG
	dir  = unix.S_IFDIR
	fifo = unix.S_IFIFO
	link = unix.S_IFLNK
)

// owned is a file of Owner and of the group of Member.
func owned(name string, mode uint32) File {
	return File{Name: name, Mode: mode, UID: Owner.UID, GID: Member.GID}
}

func rootOwned(name string, mode uint32) File { return File{Name: name, Mode: mode} }

// each repeats steps for every user.
func each(steps ...Step) (all []Step) {
	for _, u := range Users {
		for _, s := range steps {
			s.By = u
			s.Name = strings.ReplaceAll(s.Name, "$", u.Name)
			s.To = strings.ReplaceAll(s.To, "$", u.Name)
			all = append(all, s)
		}
	}
	return all
}

func by(u User, steps ...Step) []Step {
	for i := range steps {
		steps[i].By = u
	}
	return steps
}

// Scripts are all there are.
func Scripts() []Script {
	return slices.Concat(fileScripts(), dirScripts(), setIDScripts(), stickyScripts(), ownerScripts(), specialScripts(), nameScripts())
}

// fileScripts: what the mode of a file lets whom do.
func fileScripts() (all []Script) {
	for _, mode := range []uint32{0, 0o400, 0o200, 0o040, 0o020, 0o004, 0o002, 0o604, 0o660, 0o666, 0o711, 0o070} {
		all = append(all, Script{
			Name:  fmt.Sprintf("file %04o", mode),
			Files: []File{owned("f", reg|mode)},
			Steps: each(
				Step{Do: Stat, Name: "f"},
				Step{Do: Access, Name: "f", Mode: unix.R_OK}, Step{Do: Access, Name: "f", Mode: unix.W_OK},
				Step{Do: Access, Name: "f", Mode: unix.X_OK}, Step{Do: Access, Name: "f", Mode: unix.R_OK | unix.W_OK},
				Step{Do: Open, Name: "f", Flags: unix.O_RDONLY}, Step{Do: Open, Name: "f", Flags: unix.O_WRONLY},
				Step{Do: Open, Name: "f", Flags: unix.O_RDWR}, Step{Do: Write, Name: "f", Flags: unix.O_WRONLY | unix.O_APPEND},
				Step{Do: Open, Name: "f", Flags: unix.O_WRONLY | unix.O_CREAT}, Step{Do: Open, Name: "f", Flags: unix.O_RDONLY | unix.O_CREAT | unix.O_EXCL},
				Step{Do: Truncate, Name: "f", Size: 7}, Step{Do: Open, Name: "f", Flags: unix.O_WRONLY | unix.O_TRUNC},
				Step{Do: Open, Name: "f", Flags: unix.O_RDONLY | unix.O_TRUNC},
				Step{Do: Touch, Name: "f"}, Step{Do: Utimes, Name: "f"},
			),
		})
	}
	return append(all, Script{
		Name:  "descriptor opened before chmod",
		Files: []File{owned("f", reg|0o666)},
		Steps: by(Owner, Step{Do: Keep, Name: "f", Flags: unix.O_RDWR}, Step{Do: Chmod, Name: "f", Mode: 0},
			Step{Do: KeptWrite, Name: "f"}, Step{Do: KeptCut, Name: "f", Size: 2}, Step{Do: Truncate, Name: "f", Size: 1}, Step{Do: Drop}),
	})
}

// below is what users do below a directory d with the file f, the directory sub and the
// symbolic link l.
func below() []Step {
	return each(
		Step{Do: Stat, Name: "d/f"}, Step{Do: Stat, Name: "d/none"}, Step{Do: Access, Name: "d", Mode: unix.X_OK},
		Step{Do: Access, Name: "d", Mode: unix.W_OK}, Step{Do: Access, Name: "d/f", Mode: unix.R_OK},
		Step{Do: List, Name: "d"}, Step{Do: Chdir, Name: "d"}, Step{Do: Chdir, Name: "d/sub"}, Step{Do: Stat, Name: "d/sub/deep"},
		Step{Do: Open, Name: "d/f", Flags: unix.O_RDWR}, Step{Do: Open, Name: "d/l", Flags: unix.O_RDONLY}, Step{Do: Readlink, Name: "d/l"},
		Step{Do: Truncate, Name: "d/f", Size: 3}, Step{Do: Chmod, Name: "d/f", Mode: 0o666}, Step{Do: Chown, Name: "d/f", UID: -1, GID: -1},
		Step{Do: Touch, Name: "d/f"}, Step{Do: Utimes, Name: "d/f"},
		Step{Do: Link, Name: "d/f", To: "link-$"}, Step{Do: Link, Name: "out", To: "d/link-$"},
		Step{Do: Open, Name: "d/new-$", Flags: unix.O_WRONLY | unix.O_CREAT | unix.O_EXCL, Mode: 0o644}, Step{Do: Mkdir, Name: "d/dir-$", Mode: 0o755},
		Step{Do: Symlink, Name: "d/sym-$", To: "f"}, Step{Do: Mkfifo, Name: "d/fifo-$", Mode: 0o644},
		Step{Do: Rename, Name: "d/new-$", To: "d/moved-$"}, Step{Do: Rename, Name: "d/moved-$", To: "d/sub/moved-$"},
		Step{Do: Rename, Name: "d/sub/moved-$", To: "moved-$"}, Step{Do: Rename, Name: "moved-$", To: "d/back-$"},
		Step{Do: Unlink, Name: "d/back-$"}, Step{Do: Unlink, Name: "d/link-$"}, Step{Do: Unlink, Name: "d/fifo-$"}, Step{Do: Unlink, Name: "d/sym-$"},
		Step{Do: Rmdir, Name: "d/dir-$"}, Step{Do: Rmdir, Name: "d/sub"}, Step{Do: Unlink, Name: "link-$"},
	)
}

func dirFiles(mode uint32) []File {
	return []File{owned("d", dir|mode), owned("d/f", reg|0o666), owned("d/sub", dir|0o777), owned("d/sub/deep", reg|0o644),
		{Name: "d/l", Mode: link, To: "f", UID: Owner.UID, GID: Member.GID}, owned("out", reg|0o666)}
}

// dirScripts: what the mode of a directory lets whom do below it, and after a chmod.
func dirScripts() (all []Script) {
	for _, mode := range []uint32{0, 0o100, 0o400, 0o600, 0o700, 0o010, 0o070, 0o001, 0o007, 0o711, 0o755, 0o705} {
		all = append(all, Script{Name: fmt.Sprintf("directory %04o", mode), Files: dirFiles(mode), Steps: below()})
	}
	for _, modes := range [][]uint32{{0o777, 0o666, 0o777}, {0o755, 0o700, 0o711}, {0o770, 0o677, 0o070}} {
		s := Script{Name: fmt.Sprintf("chmod of a directory to %o", modes), Files: dirFiles(modes[0]), Steps: below()}
		for _, m := range modes[1:] {
			s.Steps = append(s.Steps, by(Owner, Step{Do: Chmod, Name: "d", Mode: m})...)
			s.Steps = append(s.Steps, below()...)
		}
		all = append(all, s)
	}
	moved := Script{Name: "moved below a 0700 directory", Files: append(dirFiles(0o755), owned("vault", dir|0o700)), Steps: each(Step{Do: Open, Name: "d/f"}, Step{Do: Stat, Name: "d/sub/deep"})}
	moved.Steps = append(moved.Steps, by(Owner, Step{Do: Rename, Name: "d", To: "vault/d"})...)
	moved.Steps = append(moved.Steps, each(Step{Do: Open, Name: "vault/d/f"}, Step{Do: Stat, Name: "vault/d/sub/deep"}, Step{Do: Truncate, Name: "vault/d/f"})...)
	given := Script{Name: "given away", Files: dirFiles(0o700), Steps: each(Step{Do: Open, Name: "d/f"})}
	given.Steps = append(given.Steps, by(Root, Step{Do: Chown, Name: "d", UID: int(Other.UID), GID: int(Other.GID)})...)
	given.Steps = append(given.Steps, each(Step{Do: Open, Name: "d/f"}, Step{Do: Chmod, Name: "d", Mode: 0o700})...)
	return append(all, moved, given)
}

// setIDScripts: who keeps set-id bits, and when they go.
func setIDScripts() (all []Script) {
	for _, mode := range []uint32{0o6777, 0o2767, 0o2666, 0o4711} {
		for _, s := range []Step{
			{Do: Write, Name: "f", Flags: unix.O_WRONLY}, {Do: Write, Name: "f", Flags: unix.O_WRONLY | unix.O_APPEND}, {Do: Truncate, Name: "f", Size: 1},
			{Do: Open, Name: "f", Flags: unix.O_WRONLY | unix.O_TRUNC}, {Do: Touch, Name: "f"}, {Do: Chmod, Name: "f", Mode: mode},
			{Do: Chown, Name: "f", UID: -1, GID: int(Member.GID)}, {Do: Chown, Name: "f", UID: int(Owner.UID), GID: -1},
		} {
			for _, u := range Users {
				s := s
				s.By = u
				all = append(all, Script{
					Name: fmt.Sprintf("%s of %04o by %s", s.Do, mode, u.Name), Files: []File{owned("f", reg|mode)},
					Steps: append(by(u, Step{Do: Stat, Name: "f"}), s, Step{By: u, Do: Stat, Name: "f"}, Step{By: Owner, Do: Stat, Name: "f"}),
				})
			}
		}
	}
	inherit := Script{Name: "made in a set-gid directory", Files: []File{owned("d", dir|0o2777)}, Steps: each(
		Step{Do: Mkdir, Name: "d/dir-$", Mode: 0o755}, Step{Do: Open, Name: "d/f-$", Flags: unix.O_CREAT | unix.O_WRONLY, Mode: 0o2775}, Step{Do: Mkfifo, Name: "d/p-$", Mode: 0o644},
		Step{Do: Mkdir, Name: "d/dirs-$", Mode: 0o2755}, Step{Do: Stat, Name: "d/dir-$"}, Step{Do: Chmod, Name: "d/f-$", Mode: 0o2755}, Step{Do: Stat, Name: "d/f-$"})}
	return append(all, inherit)
}

// stickyScripts: who removes and moves what in a directory that all may write to.
func stickyScripts() (all []Script) {
	for _, mode := range []uint32{0o1777, 0o777} {
		s := Script{Name: fmt.Sprintf("shared directory %04o", mode), Files: []File{owned("d", dir|mode), owned("e", dir|0o777)}}
		s.Steps = each(Step{Do: Open, Name: "d/$", Flags: unix.O_CREAT | unix.O_EXCL | unix.O_WRONLY, Mode: 0o666}, Step{Do: Mkdir, Name: "d/dir-$", Mode: 0o777},
			Step{Do: Open, Name: "e/$", Flags: unix.O_CREAT | unix.O_WRONLY, Mode: 0o666}, Step{Do: Mkdir, Name: "e/dir-$", Mode: 0o777}, Step{Do: Mkdir, Name: "e/other-$", Mode: 0o755})
		for _, whose := range []User{Other, Member, Root, Owner} {
			s.Steps = append(s.Steps, each(
				Step{Do: Write, Name: "d/" + whose.Name, Flags: unix.O_WRONLY}, Step{Do: Rename, Name: "d/" + whose.Name, To: "e/moved-$"},
				Step{Do: Rename, Name: "e/moved-$", To: "d/" + whose.Name}, Step{Do: Rename, Name: "e/$", To: "d/" + whose.Name},
				Step{Do: Rename, Name: "e/dir-$", To: "d/dir-" + whose.Name}, Step{Do: Rename, Name: "d/dir-" + whose.Name, To: "e/dir2-$"},
				Step{Do: Rename, Name: "e/other-" + whose.Name, To: "d/other-$"},
				Step{Do: Rmdir, Name: "d/dir-" + whose.Name}, Step{Do: Unlink, Name: "d/" + whose.Name},
			)...)
		}
		all = append(all, s)
	}
	links := Script{Name: "links to other people's files", Files: []File{owned("d", dir|0o1777), rootOwned("d/none", reg|0o600), rootOwned("d/read", reg|0o644), rootOwned("d/both", reg|0o666),
		rootOwned("d/setid", reg|0o4777), rootOwned("d/setgid", reg|0o2777), rootOwned("d/fifo", fifo|0o666), owned("d/theirs", reg|0o600), owned("d/group", reg|0o660)}}
	for _, n := range []string{"none", "read", "both", "setid", "setgid", "fifo", "theirs", "group"} {
		links.Steps = append(links.Steps, each(Step{Do: Link, Name: "d/" + n, To: "d/" + n + "-$"})...)
	}
	follow := Script{Name: "symbolic links in a sticky directory", Protected: true, Files: []File{rootOwned("d", dir|0o1777), rootOwned("f", reg|0o666),
		owned("d/p", fifo|0o666), owned("d/r", reg|0o666)}}
	follow.Steps = each(Step{Do: Symlink, Name: "d/l-$", To: "../f"})
	for _, u := range Users {
		follow.Steps = append(follow.Steps, each(Step{Do: Open, Name: "d/l-" + u.Name, Flags: unix.O_RDONLY}, Step{Do: Readlink, Name: "d/l-" + u.Name})...)
	}
	follow.Steps = append(follow.Steps, each(Step{Do: Open, Name: "d/r", Flags: unix.O_WRONLY | unix.O_CREAT, Mode: 0o600}, Step{Do: Open, Name: "d/p", Flags: unix.O_RDWR | unix.O_CREAT, Mode: 0o600})...)
	return append(all, links, follow)
}

// ownerScripts: chmod, chown and times.
func ownerScripts() (all []Script) {
	for _, f := range []File{owned("o", reg|0o644), owned("o", dir|0o755), owned("o", fifo|0o644), rootOwned("o", reg|0o644)} {
		for _, u := range Users {
			who := fmt.Sprintf("%o of %d by %s: ", f.Mode, f.UID, u.Name)
			s := Script{Name: who, Files: []File{f}}
			s.Steps = by(u,
				Step{Do: Chmod, Name: "o", Mode: 0o600}, Step{Do: Chmod, Name: "o", Mode: 0o4755}, Step{Do: Chmod, Name: "o", Mode: 0o2755}, Step{Do: Chmod, Name: "o", Mode: 0o1755}, Step{Do: Chmod, Name: "o", Mode: 0o666},
				Step{Do: Touch, Name: "o"}, Step{Do: Utimes, Name: "o"}, Step{Do: Chmod, Name: "o", Mode: 0o444}, Step{Do: Touch, Name: "o"}, Step{Do: Utimes, Name: "o"},
				Step{Do: Chown, Name: "o", UID: -1, GID: -1}, Step{Do: Chown, Name: "o", UID: -1, GID: int(f.GID)}, Step{Do: Chown, Name: "o", UID: int(f.UID), GID: -1},
				Step{Do: Chown, Name: "o", UID: -1, GID: int(u.GID)}, Step{Do: Stat, Name: "o"}, Step{Do: Chmod, Name: "o", Mode: 0o2755}, Step{Do: Stat, Name: "o"},
				Step{Do: Chown, Name: "o", UID: -1, GID: int(Supplementary.Groups[0])}, Step{Do: Chown, Name: "o", UID: -1, GID: 7777}, Step{Do: Chown, Name: "o", UID: int(u.UID), GID: -1},
				Step{Do: Chown, Name: "o", UID: int(Other.UID), GID: int(Other.GID)}, Step{Do: Stat, Name: "o"}, Step{Do: Chmod, Name: "o", Mode: 0o600},
			)
			all = append(all, s)
		}
	}
	all = append(all, Script{Name: "groups of supplementary's own", Files: []File{{Name: "o", Mode: reg | 0o664, UID: Supplementary.UID, GID: 7777}},
		Steps: by(Supplementary, Step{Do: Chmod, Name: "o", Mode: 0o2775}, Step{Do: Stat, Name: "o"}, Step{Do: Chown, Name: "o", UID: -1, GID: 6009}, Step{Do: Chmod, Name: "o", Mode: 0o2775},
			Step{Do: Stat, Name: "o"}, Step{Do: Chown, Name: "o", UID: -1, GID: 6002}, Step{Do: Stat, Name: "o"}, Step{Do: Chown, Name: "o", UID: -1, GID: 7777})})
	return append(all, Script{Name: "symbolic link's own", Files: []File{{Name: "l", Mode: link, To: "none", UID: Owner.UID, GID: Member.GID}},
		Steps: each(Step{Do: Lchown, Name: "l", UID: -1, GID: int(Other.GID)}, Step{Do: Lchown, Name: "l", UID: int(Other.UID), GID: -1}, Step{Do: Chmod, Name: "l", Mode: 0o600},
			Step{Do: Chown, Name: "l", UID: -1, GID: -1}, Step{Do: Stat, Name: "l"})})
}

// specialScripts: FIFOs, sockets and device nodes.
func specialScripts() (all []Script) {
	for _, mode := range []uint32{0, 0o600, 0o660, 0o606, 0o666, 0o060, 0o006} {
		s := Script{Name: fmt.Sprintf("FIFO %04o", mode), Files: []File{owned("p", fifo|0o600)}}
		s.Steps = by(Owner, Step{Do: Hold, Name: "p", Flags: unix.O_RDWR}, Step{Do: Chmod, Name: "p", Mode: mode})
		s.Steps = append(s.Steps, each(Step{Do: Stat, Name: "p"}, Step{Do: Access, Name: "p", Mode: unix.R_OK}, Step{Do: Access, Name: "p", Mode: unix.W_OK}, Step{Do: Use, Name: "p"},
			Step{Do: Truncate, Name: "p"}, Step{Do: Utimes, Name: "p"}, Step{Do: Link, Name: "p", To: "link-$"}, Step{Do: Stat, Name: "p"}, Step{Do: Rename, Name: "p", To: "q"}, Step{Do: Use, Name: "q"}, Step{Do: Rename, Name: "q", To: "p"})...)
		s.Steps = append(s.Steps, by(Owner, Step{Do: Chmod, Name: "p", Mode: 0o666})...)
		s.Steps = append(s.Steps, each(Step{Do: Use, Name: "p"})...)
		s.Steps = append(s.Steps, by(Owner, Step{Do: Drop}, Step{Do: Unlink, Name: "p"})...)
		all = append(all, s)
	}
	for _, mode := range []uint32{0, 0o600, 0o400, 0o200, 0o660, 0o640, 0o602, 0o666, 0o755} {
		s := Script{Name: fmt.Sprintf("socket %04o", mode), Files: []File{owned("d", dir|0o777)}}
		s.Steps = by(Owner, Step{Do: Bind, Name: "d/s"}, Step{Do: Chown, Name: "d/s", UID: -1, GID: int(Owner.GID)}, Step{Do: Chmod, Name: "d/s", Mode: mode})
		s.Steps = append(s.Steps, each(Step{Do: Connect, Name: "d/s"}, Step{Do: Stat, Name: "d/s"}, Step{Do: Open, Name: "d/s"})...)
		s.Steps = append(s.Steps, by(Owner, Step{Do: Chmod, Name: "d/s", Mode: 0o666})...)
		s.Steps = append(s.Steps, each(Step{Do: Connect, Name: "d/s"}, Step{Do: Unlink, Name: "d/s"}, Step{Do: Connect, Name: "d/s"})...)
		s.Steps = append(s.Steps, by(Owner, Step{Do: Drop})...)
		all = append(all, s)
	}
	return append(all, Script{Name: "made by mknod", Files: []File{owned("d", dir|0o777)}, Steps: each(
		Step{Do: Mknod, Name: "d/c-$", Mode: unix.S_IFCHR | 0o600}, Step{Do: Mknod, Name: "d/b-$", Mode: unix.S_IFBLK | 0o600}, Step{Do: Mknod, Name: "d/p-$", Mode: fifo | 0o640},
		Step{Do: Mknod, Name: "d/s-$", Mode: unix.S_IFSOCK | 0o640}, Step{Do: Mknod, Name: "d/f-$", Mode: reg | 0o640}, Step{Do: Stat, Name: "d/c-$"}, Step{Do: Stat, Name: "d/p-$"})})
}

// nameScripts: refusals that have nothing to do with rights, and which of two comes first.
func nameScripts() []Script {
	long := strings.Repeat("n", 256)
	files := []File{owned("d", dir|0o755), owned("d/f", reg|0o644), owned("d/full", dir|0o755), owned("d/full/x", reg|0o644), owned("d/empty", dir|0o755), owned("w", dir|0o777),
		{Name: "loop", Mode: link, To: "loop", UID: Owner.UID, GID: Owner.GID}, {Name: "dangling", Mode: link, To: "nowhere", UID: Owner.UID, GID: Owner.GID}, owned("shut", dir), owned("readonly", dir|0o555), owned("w/own", dir|0o555)}
	var steps []Step
	for _, name := range []string{"d/none", "d/f/below", "d/" + long, "loop", "loop/x", "dangling", "none/x", "shut/x", "d/full", "d/empty", "d/f", "readonly/x"} {
		steps = append(steps, each(
			Step{Do: Stat, Name: name}, Step{Do: Open, Name: name, Flags: unix.O_RDONLY}, Step{Do: Open, Name: name, Flags: unix.O_WRONLY}, Step{Do: Open, Name: name, Flags: unix.O_RDONLY | unix.O_DIRECTORY},
			Step{Do: Open, Name: name, Flags: unix.O_RDONLY | unix.O_NOFOLLOW}, Step{Do: Chmod, Name: name, Mode: 0o755}, Step{Do: Truncate, Name: name, Size: 1}, Step{Do: Truncate, Name: name, Size: -1},
			Step{Do: Access, Name: name, Mode: unix.W_OK}, Step{Do: Readlink, Name: name}, Step{Do: Chdir, Name: name}, Step{Do: Link, Name: name, To: "w/l-$"}, Step{Do: Unlink, Name: "w/l-$"},
			Step{Do: Mkdir, Name: name, Mode: 0o755}, Step{Do: Mkfifo, Name: name, Mode: 0o644}, Step{Do: Symlink, Name: name, To: "t"}, Step{Do: Touch, Name: name}, Step{Do: Rename, Name: "w/own", To: name},
		)...)
	}
	for _, u := range []User{Other, Member, Owner, Root} {
		steps = append(steps, by(u, Step{Do: Unlink, Name: "d/full"}, Step{Do: Rmdir, Name: "d/full"}, Step{Do: Rmdir, Name: "d/f"}, Step{Do: Rename, Name: "d/f", To: "d/empty"}, Step{Do: Rename, Name: "d/empty", To: "d/f"},
			Step{Do: Rename, Name: "d/empty", To: "d/full"}, Step{Do: Rename, Name: "d/full", To: "d/full/below"}, Step{Do: Rename, Name: "w/own", To: "w/renamed"}, Step{Do: Rename, Name: "w/renamed", To: "d/renamed"},
			Step{Do: Link, Name: "d", To: "w/dir"}, Step{Do: Rename, Name: "d/f", To: "d/f"}, Step{Do: Open, Name: "d/new", Flags: unix.O_CREAT | unix.O_RDWR, Mode: 0o200}, Step{Do: Open, Name: "w/mine-" + u.Name, Flags: unix.O_CREAT | unix.O_RDWR, Mode: 0},
			Step{Do: Open, Name: "w/mine-" + u.Name, Flags: unix.O_RDWR}, Step{Do: Rmdir, Name: "d/empty"}, Step{Do: Unlink, Name: "d/f"})...)
	}
	return []Script{{Name: "names", Files: files, Steps: steps}}
}
