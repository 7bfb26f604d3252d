package doctor

import (
	"os"
	"path/filepath"
	"strings"
)

// FindLibrary is the path of a shared library where the dynamic linker looks
// for it; "" when it is not installed.
func FindLibrary(name string) string { return findLibrary("/", os.Getenv("LD_LIBRARY_PATH"), name) }

func findLibrary(root, searchPath, name string) string {
	for _, dir := range libraryDirs(root, searchPath) {
		p := filepath.Join(dir, name)
		if st, err := os.Stat(p); err == nil && st.Mode().IsRegular() {
			return p
		}
	}
	return ""
}

// libraryDirs are the directories of ld.so(8): those of the environment, those of
// ld.so.conf, and the built-in ones, with Debian's multiarch.
func libraryDirs(root, searchPath string) []string {
	dirs := filepath.SplitList(searchPath)
	conf, _ := filepath.Glob(filepath.Join(root, "etc/ld.so.conf.d/*.conf"))
	for _, file := range append(conf, filepath.Join(root, "etc/ld.so.conf")) {
		b, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		dirs = append(dirs, confDirs(root, string(b))...)
	}
	for _, pattern := range []string{"lib64", "usr/lib64", "lib", "usr/lib", "usr/lib/*-linux-gnu*"} {
		found, _ := filepath.Glob(filepath.Join(root, pattern))
		dirs = append(dirs, found...)
	}
	return dirs
}

// confDirs are the directories that a file of ld.so.conf names, below root.
func confDirs(root, text string) (dirs []string) {
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); strings.HasPrefix(line, "/") {
			dirs = append(dirs, filepath.Join(root, line))
		}
	}
	return dirs
}
