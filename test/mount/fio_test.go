package mount

import (
	"os/exec"
	"path/filepath"
	"testing"
)

// TestFioVerify has fio write blocks that carry their own checksums, in random
// order and of mixed sizes, buffered and O_DIRECT, from several jobs; then the
// mount is made anew and fio checks every block.
func TestFioVerify(t *testing.T) {
	if _, err := exec.LookPath("fio"); err != nil {
		t.Fatal("fio is missing (make setup installs it)")
	}
	for _, proto := range []string{"rdma", "tcp"} {
		t.Run(proto, func(t *testing.T) {
			s := startServer(t, serverOptions{})
			m := s.mount(t, proto, "")
			fio := func(more ...string) {
				t.Helper()
				args := []string{"--output-format=terse", "--directory=" + m.Dir, "--size=24M", "--verify=crc32c", "--verify_fatal=1",
					// The file has its whole size from the start, without fallocate(2), which NFSv3 lacks.
					"--fallocate=truncate", "--verify_state_save=0", "--rw=randwrite", "--randseed=4711",
					"--name=buffered", "--bsrange=512-96k", "--bs_unaligned", "--ioengine=psync", "--end_fsync=1", "--numjobs=2",
					"--name=direct", "--bs=64k", "--direct=1", "--ioengine=libaio", "--iodepth=16",
					"--name=mapped", "--bs=4k", "--ioengine=mmap", "--fsync=64"}
				if out, err := exec.Command("fio", append(more, args...)...).CombinedOutput(); err != nil {
					t.Fatalf("fio %q: %v: %.600s", more, err, out)
				}
			}
			fio("--do_verify=0")
			m.Umount(t)
			files, err := filepath.Glob(filepath.Join(s.export, "*"))
			if err != nil || len(files) != 4 {
				t.Fatalf("%d files on the server, want 4 (%v)", len(files), err)
			}
			m = Mount(t, s.source(), Options{Words: s.words(proto, ""), Dir: m.Dir})
			fio("--verify_only")
			m.Umount(t)
		})
	}
}
