//go:build !cgo || !linux

package ibv

import (
	"context"

	"github.com/rdmafs/rdmafs/verbs"
)

// Built says that this program can load rdma-core's libraries.
const Built = false

// Available returns ErrNotBuilt.
func Available() error { return ErrNotBuilt }

// InspectWindows returns ErrNotBuilt.
func InspectWindows(string) (Windows, error) { return Windows{}, ErrNotBuilt }

// Open returns ErrNotBuilt.
func Open(context.Context, Config) (verbs.Device, error) { return nil, ErrNotBuilt }
