package rdmafs_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log"
	"os"
	"strings"
	"time"

	"github.com/rdmafs/rdmafs"
)

// A file is written and read over RDMA, without a mount.
func Example() {
	options, stop := serveExample() // a server for this example
	defer stop()

	ctx := context.Background()
	fsys, err := rdmafs.Open(ctx, "127.0.0.1:/export", &rdmafs.Options{Mount: options})
	if err != nil {
		log.Fatal(err)
	}
	if err := fsys.WriteFile("greeting", []byte("hello, world\n"), 0o644); err != nil {
		log.Fatal(err)
	}
	data, err := fsys.ReadFile("greeting")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s", data)
	if err := fsys.Close(ctx); err != nil {
		log.Fatal(err) // data was lost
	}
	// Output: hello, world
}

// What takes an fs.FS walks an export as it walks any other file system.
func ExampleFS() {
	options, stop := serveExample()
	defer stop()
	ctx := context.Background()
	fsys, err := rdmafs.Open(ctx, "127.0.0.1:/export", &rdmafs.Options{Mount: options})
	if err != nil {
		log.Fatal(err)
	}
	defer fsys.Close(ctx)

	if err := fsys.MkdirAll("music/old", 0o755); err != nil {
		log.Fatal(err)
	}
	for _, name := range []string{"music/b.flac", "music/old/a.flac"} {
		if err := fsys.WriteFile(name, make([]byte, 1000), 0o644); err != nil {
			log.Fatal(err)
		}
	}
	err = fs.WalkDir(fsys, "music", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		fmt.Println(path, info.Size())
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output:
	// music/b.flac 1000
	// music/old/a.flac 1000
}

// Every call is bounded by the context of the view that it is made through,
// here a copy of a file.
func ExampleFS_WithContext() {
	options, stop := serveExample()
	defer stop()
	fsys, err := rdmafs.Open(context.Background(), "127.0.0.1:/export", &rdmafs.Options{Mount: options})
	if err != nil {
		log.Fatal(err)
	}
	defer fsys.Close(context.Background())

	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	file, err := fsys.WithContext(ctx).Create("copy")
	if err != nil {
		log.Fatal(err)
	}
	n, err := io.Copy(file, strings.NewReader("from anywhere"))
	if err != nil {
		log.Fatal(err)
	}
	if err := file.Close(); err != nil { // now it is on the server's disk
		log.Fatal(err)
	}
	fmt.Println(n, "bytes")

	cancel()
	_, err = fsys.WithContext(ctx).Stat("copy")
	fmt.Println(err)
	// Output:
	// 13 bytes
	// stat copy: context canceled
}

// Several goroutines may write and read parts of a file at once.
func ExampleFile_WriteAt() {
	options, stop := serveExample()
	defer stop()
	ctx := context.Background()
	fsys, err := rdmafs.Open(ctx, "127.0.0.1:/export", &rdmafs.Options{Mount: options})
	if err != nil {
		log.Fatal(err)
	}
	defer fsys.Close(ctx)

	file, err := fsys.Create("parts")
	if err != nil {
		log.Fatal(err)
	}
	parts := make(chan error)
	for n, text := range []string{"one ", "two ", "three"} {
		go func() {
			_, err := file.WriteAt([]byte(text), int64(4*n))
			parts <- err
		}()
	}
	if err := errors.Join(<-parts, <-parts, <-parts, file.Sync()); err != nil {
		log.Fatal(err)
	}
	part := make([]byte, 3)
	if _, err := file.ReadAt(part, 4); err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s\n", part)
	if err := file.Close(); err != nil {
		log.Fatal(err)
	}
	// Output: two
}

// Errors are those of packages io/fs and syscall.
func ExampleFS_OpenFile() {
	options, stop := serveExample()
	defer stop()
	ctx := context.Background()
	fsys, err := rdmafs.Open(ctx, "127.0.0.1:/export", &rdmafs.Options{Mount: options})
	if err != nil {
		log.Fatal(err)
	}
	defer fsys.Close(ctx)

	_, err = fsys.Open("nothing")
	fmt.Println(err, errors.Is(err, fs.ErrNotExist))

	lock, err := fsys.OpenFile("lock", os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		log.Fatal(err)
	}
	defer lock.Close()
	_, err = fsys.OpenFile("lock", os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	fmt.Println(err, errors.Is(err, fs.ErrExist))
	// Output:
	// open nothing: no such file or directory true
	// open lock: file exists true
}

// A program mounts an export, and serves the mount until somebody unmounts it.
func ExampleMount() {
	ctx := context.Background()
	m, err := rdmafs.Mount(ctx, "server:/export", "/mnt", &rdmafs.Options{Mount: "rdma=auto,soft"})
	if err != nil {
		log.Fatal(err)
	}
	m.Wait()
	if err := m.Unmount(ctx); err != nil {
		log.Fatal(err) // data was lost
	}
}
