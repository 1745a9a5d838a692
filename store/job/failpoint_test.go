//go:build invariants

package job_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/store/job"
)

// inherited makes a job with an owner of the past, whose versions are 1 and 2.
func inherited(t *testing.T, dir string) {
	t.Helper()
	c := openStore(t, dir)
	require.NoError(t, c.Create(t.Context(), id, json.RawMessage(`{}`)))
	claim, _, err := c.Claim(t.Context(), id, me, job.Sighting{})
	require.NoError(t, err)
	require.NoError(t, claim.Beat(t.Context()))
	for v := 1; v <= 2; v++ {
		require.NoError(t, save(t.Context(), claim, v))
	}
	require.NoError(t, claim.Release())
}

// life is what the child does: it takes the job over and saves three versions,
// one of them twice, as at the end of an epoch.
//
// Its end is another life, see TestKilledAtEveryPointOfTheEnd.
func life() []string {
	return []string{
		"claim " + id, "save " + id + " 3", "beat " + id, "save " + id + " 4", "save " + id + " 4", "save " + id + " 5",
	}
}

// points runs that life to its end and returns the failpoints that it passed.
func points(t *testing.T, life []string, last string, wanted ...string) []string {
	t.Helper()
	dir, trace := t.TempDir(), filepath.Join(t.TempDir(), "trace")
	inherited(t, dir)
	p := start(t, dir, nil, "TROUPE_FAILPOINT_TRACE="+trace)
	for _, command := range life {
		require.Regexp(t, "^ok", p.ask("%s", command))
	}
	p.stop()
	b, err := os.ReadFile(trace)
	require.NoError(t, err)
	names := strings.Split(strings.TrimSpace(string(b)), "\n")
	require.Equal(t, last, names[len(names)-1])
	for _, want := range append(wanted, "store.put.temp", "store.put.half", "store.put.written", "store.put.synced", "store.put.published",
		"store.put.done", "store.delete.removed", "claim.locked", "claim.claimed", "job.prune") {
		require.Contains(t, names, want)
	}
	return names
}

// eachPoint runs test for each failpoint of that life, two at a time.
func eachPoint(t *testing.T, test func(t *testing.T, point string, at int)) {
	names := points(t, life(), "job.save.end", "job.save.begin", "job.save.file", "job.save.files", "job.save.previous", "job.save.state")
	eachOf(t, names, test)
}

// eachOf runs test for each of those failpoints, two at a time.
func eachOf(t *testing.T, names []string, test func(t *testing.T, point string, at int)) {
	t.Logf("%d points", len(names))
	var wg sync.WaitGroup
	for half := range 2 {
		wg.Go(func() {
			for i := half; i < len(names); i += 2 {
				t.Run(fmt.Sprintf("%03d %s", i+1, names[i]), func(t *testing.T) { test(t, names[i], i+1) })
			}
		})
	}
	wg.Wait()
}

// kill -9 at every point of a life, its claim and its saves: the job is free at
// once, its state is the last that Save promised or the one in hand, with every
// file whole, and the next owner goes on and leaves no rubbish.
func TestKilledAtEveryPoint(t *testing.T) {
	eachPoint(t, func(t *testing.T, point string, at int) {
		dir := t.TempDir()
		inherited(t, dir)
		p := start(t, dir, nil, fmt.Sprintf("TROUPE_FAILPOINT=:%d", at))
		saved, next := 2, 0
		for _, command := range life() {
			p.tell("%s", command)
			if _, err := fmt.Sscanf(command, "save "+id+" %d", &next); err != nil {
				next = saved
			}
			answer, alive := p.answer()
			if !alive {
				break
			}
			require.Regexp(t, "^ok", answer)
			saved = next
		}
		err := p.cmd.Wait()
		require.ErrorContains(t, err, "killed")

		c := openStore(t, dir)
		state, err := c.Load(t.Context(), id)
		require.NoError(t, err)
		require.Contains(t, []int{saved, next}, version(state))
		require.Equal(t, content(version(state)), readAll(t, c, id, state, fmt.Sprintf("model-%d.safetensors", version(state))))

		claim, _, err := c.Claim(t.Context(), id, me, job.Sighting{})
		require.NoError(t, err, "free at once")
		goesOn(t, c, dir, claim)
	})
}

// A disk that is full for a moment at any point costs at most what was being
// done: state and owner are as before or as after, and the next try succeeds.
func TestFullDiskAtEveryPoint(t *testing.T) {
	eachPoint(t, func(t *testing.T, point string, at int) {
		dir := t.TempDir()
		inherited(t, dir)
		p := start(t, dir, nil, fmt.Sprintf("TROUPE_FAILPOINT=:%d:full", at))
		saved, failed := 2, 0
		for _, command := range life() {
			answer := p.ask("%s", command)
			next := saved
			_, _ = fmt.Sscanf(command, "save "+id+" %d", &next)
			if !strings.HasPrefix(answer, "ok") {
				require.Regexp(t, "^unavailable: .*no space left on device", answer)
				failed++
				require.Contains(t, []string{fmt.Sprint("ok ", saved), fmt.Sprint("ok ", next)}, p.ask("load %s", id))
				require.Regexp(t, "^ok", p.ask("%s", command), "the next try")
			}
			saved = next
			require.Equal(t, fmt.Sprint("ok ", saved), p.ask("load %s", id))
		}
		if point != "job.prune" && point != "store.delete.removed" { // tried again in silence
			require.Equal(t, 1, failed)
		}
		p.stop()
		c := openStore(t, dir)
		claim, _, err := c.Claim(t.Context(), id, me, job.Sighting{})
		require.NoError(t, err)
		goesOn(t, c, dir, claim)
	})
}

// kill -9 at every point of a life that ends its job: the state is the end, or can
// be gone on from; and of one that has ended, whoever claims it next removes all
// that nobody needs, of every incarnation.
func TestKilledAtEveryPointOfTheEnd(t *testing.T) {
	life := []string{"claim " + id, "save " + id + " 3", "end " + id + " 4"}
	names := points(t, life, "job.end.end", "job.end.begin", "job.end.state")
	eachOf(t, names, func(t *testing.T, point string, at int) {
		dir := t.TempDir()
		inherited(t, dir)
		p := start(t, dir, nil, fmt.Sprintf("TROUPE_FAILPOINT=:%d", at))
		for _, command := range life {
			p.tell("%s", command)
			if _, alive := p.answer(); !alive {
				break
			}
		}
		require.ErrorContains(t, p.cmd.Wait(), "killed")

		c := openStore(t, dir)
		claim, _, err := c.Claim(t.Context(), id, me, job.Sighting{})
		require.NoError(t, err)
		state, err := c.Load(t.Context(), id)
		require.NoError(t, err)
		if version(state) < 4 {
			require.Equal(t, content(version(state)), readAll(t, c, id, state, fmt.Sprintf("model-%d.safetensors", version(state))))
			requireKind(t, fault.Conflict, claim.Clear(t.Context()))
			goesOn(t, c, dir, claim)
			return
		}
		require.Empty(t, state.Files)
		require.NoError(t, claim.Clear(t.Context()))
		there, err := c.HasFiles(t.Context(), id)
		require.NoError(t, err)
		require.False(t, there)
		state, err = c.Load(t.Context(), id)
		require.NoError(t, err)
		require.Equal(t, 4, version(state))
		for _, k := range keys(t, openFile(t, dir), id) {
			require.Regexp(t, `^(\d/claim|3/lock-\w+|2/(state|previous)\.json)$`, k)
		}
		require.NoError(t, claim.Release())
	})
}
