//go:build !cgo || !linux

package ibv

import (
	"context"

	"github.com/rdmafs/rdmafs/verbs"
)

// Open returns ErrNotBuilt.
func Open(context.Context, Config) (verbs.Device, error) { return nil, ErrNotBuilt }
