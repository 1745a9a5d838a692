//go:build deps

// Package deps holds requirements while the tree is laid; it goes with the last of them.
package deps

import (
	_ "github.com/asynkron/protoactor-go/actor"
	_ "github.com/cespare/xxhash/v2"
	_ "github.com/oklog/ulid/v2"
	_ "github.com/spf13/cobra"
	_ "github.com/stretchr/testify/require"
	_ "github.com/vbauerster/mpb/v8"
	_ "github.com/x448/float16"
	_ "go.uber.org/goleak"
	_ "go.uber.org/zap"
	_ "go.uber.org/zap/exp/zapslog"
	_ "go.uber.org/zap/zaptest"
	_ "gocloud.dev/blob/memblob"
	_ "golang.org/x/sys/unix"
	_ "golang.org/x/term"
	_ "gonum.org/v1/gonum/blas/blas32"
	_ "gonum.org/v1/gonum/stat"
	_ "google.golang.org/protobuf/encoding/protojson"
)
