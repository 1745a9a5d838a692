package host_test

import (
	"context"
	"encoding/binary"
	"hash/crc32"
	"os"
	"testing"

	"github.com/cespare/xxhash/v2"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/troupe-ml/troupe/actors/host"
	"github.com/troupe-ml/troupe/functions"
	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/internal/wire"
	"github.com/troupe-ml/troupe/messages"
	"github.com/troupe-ml/troupe/plane"
	"github.com/troupe-ml/troupe/tensor"
)

// Bytes of an answer that change after it was written are noticed, wherever they
// are and whatever they make of the values.
func TestADamagedAnswerIsRejected(t *testing.T) {
	for name, space := range map[string]plane.Space{"files": scratch(t), "memory": plane.NewMemory("here")} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, space)
			b.answers(model(), tensor.StateDict{tensor.NewFloat32("momentum", []int64{1}, []float32{7})}, same)
			whats := map[string]int{}
			for seed := range uint64(60) {
				inv := b.train()
				inv.Plan.Chaos = &messages.ChaosPlan{Corrupt: 1, Seed: seed}
				_, err := b.Execute(t.Context(), inv, 0, nil)
				require.Equal(t, fault.Rejected, fault.KindOf(err), "%v", err)
				require.ErrorContains(t, err, "bytes are damaged: their CRC-32 is ")
				whats[err.Error()[:5]]++
				b.nothingLeft(t)
			}
			require.Greater(t, whats["model"], 10)
			require.Greater(t, whats["optim"], 10)
		})
	}
}

// Damage really changes the bytes: of the header, of the values, or of both. Most
// that hits the values leaves a model that a merge would take.
func TestDamageChangesBytes(t *testing.T) {
	space := plane.NewMemory("here")
	whole := wire.PlaneRef(put(t, space, "whole", model()))
	want := content(t, space, whole)
	header := 8 + int(binary.LittleEndian.Uint64(want))
	var headers, values, both, finite int
	for seed := range uint64(300) {
		damaged, err := host.Damage(space, whole, "damaged", seed)
		require.NoError(t, err)
		got := content(t, space, damaged)
		require.Len(t, got, len(want))
		var above, below int
		for i := range got {
			if got[i] != want[i] && i < header {
				above++
			} else if got[i] != want[i] {
				below++
			}
		}
		require.True(t, above+below >= 1 && above+below <= 8, "%d bytes", above+below)
		switch {
		case below == 0:
			headers++
		case above == 0:
			values++
			blob, err := space.Open(t.Context(), damaged)
			require.NoError(t, err)
			var check tensor.Checker
			source := tensor.Source{R: blob, Size: blob.Size()}
			if check.Check(source, source) == nil {
				finite++
			}
		default:
			both++
		}
		require.NoError(t, space.Remove("damaged"))
	}
	require.Greater(t, headers, 60)
	require.Greater(t, values, 60)
	require.Greater(t, both, 20)
	require.Greater(t, finite, values/3, "which nothing but the CRC-32 finds")
}

func content(t *testing.T, space plane.Space, ref plane.Ref) []byte {
	t.Helper()
	blob, err := space.Open(t.Context(), ref)
	require.NoError(t, err)
	data := make([]byte, blob.Size())
	_, err = blob.ReadAt(data, 0)
	require.NoError(t, err)
	return data
}

// What another process writes to the file counts as it says, and it has to say.
func TestWhatAnotherProcessWritesIsAttested(t *testing.T) {
	b := newBench(t, scratch(t))
	var sound functions.Buffer
	require.NoError(t, functions.WriteDict(&sound, model()))
	crc := crc32.ChecksumIEEE(sound.Bytes())
	for name, c := range map[string]struct {
		attest func(functions.Output)
		says   string // "" = accepted
	}{
		"the file is as attested": {func(o functions.Output) { o.Attest(crc) }, ""},
		"it is another":           {func(o functions.Output) { o.Attest(crc ^ 1) }, "bytes are damaged: their CRC-32 is "},
		"nobody attests":          {func(functions.Output) {}, "its writer does not say what it wrote"},
	} {
		t.Run(name, func(t *testing.T) {
			b.runtime.run = func(_ context.Context, inv functions.Invocation) (functions.Answer, error) {
				_, err := inv.ModelOut.Create(int64(len(sound.Bytes())))
				require.NoError(t, err)
				f, err := os.OpenFile(inv.ModelOut.Path(), os.O_WRONLY, 0)
				require.NoError(t, err)
				_, err = f.Write(sound.Bytes())
				require.NoError(t, err)
				require.NoError(t, f.Close())
				c.attest(inv.ModelOut)
				return answerOf(inv), nil
			}
			answer, err := b.Execute(t.Context(), b.train(), 0, nil)
			if c.says == "" {
				require.NoError(t, err)
				require.Equal(t, xxhash.Sum64(sound.Bytes()), answer.GetModel().GetDigest(), "for other nodes")
				require.NoError(t, b.space.Remove(answer.GetModel().GetKey()))
				return
			}
			require.Equal(t, fault.Rejected, fault.KindOf(err), "%v", err)
			require.ErrorContains(t, err, c.says)
			b.nothingLeft(t)
		})
	}
}

// By chaos a disk is full for one attempt, with the error of the system.
func TestChaosLeavesNoRoom(t *testing.T) {
	b := newBench(t, scratch(t))
	inv := b.train()
	inv.Plan.Chaos = &messages.ChaosPlan{DiskFull: 1}
	_, err := b.Execute(t.Context(), inv, 0, nil)
	require.Equal(t, fault.Unavailable, fault.KindOf(err))
	require.ErrorIs(t, err, unix.ENOSPC)
	require.ErrorContains(t, err, "no space left on device")
	b.nothingLeft(t)
}
