package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/rdmafs/rdmafs/internal/plot"
)

// pageFile is a file for a report that is written at the end. It is made at the beginning,
// so that what cannot be written is known then, and has its name when it is whole.
type pageFile struct {
	name string
	f    *os.File
}

func newPageFile(name string) (*pageFile, error) {
	f, err := os.CreateTemp(filepath.Dir(name), ".rdmafs-report.")
	if err != nil {
		return nil, fmt.Errorf("the report %s cannot be written: %w", name, err)
	}
	return &pageFile{name, f}, nil
}

// write writes the page; nothing is left of a file that fails.
func (p *pageFile) write(page *plot.Page) error {
	const readable = 0o644
	err := errors.Join(page.Write(p.f), p.f.Chmod(readable), p.f.Close())
	if err == nil {
		err = os.Rename(p.f.Name(), p.name)
	}
	if err != nil {
		return fmt.Errorf("the report: %w", errors.Join(err, os.Remove(p.f.Name())))
	}
	return nil
}

// drop leaves nothing behind of a report that is not written.
func (p *pageFile) drop() {
	_ = p.f.Close()
	_ = os.Remove(p.f.Name())
}
