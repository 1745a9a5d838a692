package job_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-ml/troupe/actors/testkit"
	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/store"
	"github.com/troupe-ml/troupe/store/job"
)

// meddler is a store that does something before each operation, which may
// fail before or after it took effect.
type meddler struct {
	store.Store
	meddle func() (before, after error)
}

func (m *meddler) around(op func() error) error {
	before, after := m.meddle()
	if before != nil {
		return before
	}
	if err := op(); err != nil {
		return err
	}
	return after
}

func (m *meddler) Get(ctx context.Context, key string, offset, length int64) (r io.ReadCloser, err error) {
	err = m.around(func() error { r, err = m.Store.Get(ctx, key, offset, length); return err })
	if err != nil && r != nil {
		_ = r.Close()
	}
	return r, err
}

func (m *meddler) Put(ctx context.Context, key string, write func(io.Writer) error) error {
	return m.around(func() error { return m.Store.Put(ctx, key, write) })
}

func (m *meddler) PutIfAbsent(ctx context.Context, key string, write func(io.Writer) error) error {
	return m.around(func() error { return m.Store.PutIfAbsent(ctx, key, write) })
}

func (m *meddler) Delete(ctx context.Context, key string) error {
	return m.around(func() error { return m.Store.Delete(ctx, key) })
}

func (m *meddler) Stat(ctx context.Context, key string) (o store.Object, err error) {
	err = m.around(func() error { o, err = m.Store.Stat(ctx, key); return err })
	return o, err
}

func (m *meddler) Folders(ctx context.Context, prefix string) iter.Seq2[string, error] {
	if before, _ := m.meddle(); before != nil {
		return func(yield func(string, error) bool) { yield("", before) }
	}
	return m.Store.Folders(ctx, prefix)
}

// world is three owners of one job, each of which may be in the middle of
// anything while another acts: as frozen and cut-off owners are.
type world struct {
	t       *testing.T
	rng     *rand.Rand
	store   *store.Mem
	calm    *job.Catalog // of somebody who only looks
	players []*player
	busy    []*player // who is in the middle of something, outermost first

	version int
	owners  map[uint64]*player
	tried   map[uint64][]int // versions by incarnation, in order
	saved   map[uint64]int   // index in tried of the last that Save promised
	starts  map[uint64]place // what owners found when they had claimed
	visible place
}

// place orders the states of a job: by incarnation, then by its attempts.
type place struct {
	incarnation uint64
	index       int // in tried; -1 under incarnation 0: no state
}

func (a place) isBefore(b place) bool {
	return a.incarnation < b.incarnation || a.incarnation == b.incarnation && a.index < b.index
}

func (w *world) place(state *job.State) place {
	if state == nil {
		return place{index: -1}
	}
	return place{state.Incarnation, slices.Index(w.tried[state.Incarnation], version(state))}
}

type player struct {
	name    string
	catalog *job.Catalog
	claim   *job.Claim
	start   *job.State // what it found when it claimed
	saves   int        // tried under this claim
	model   int        // version of the model it last saved
}

func newWorld(t *testing.T, seed uint64) *world {
	w := &world{
		t: t, rng: rand.New(rand.NewPCG(seed, 4)), store: store.NewMem(),
		owners: map[uint64]*player{}, tried: map[uint64][]int{}, saved: map[uint64]int{}, starts: map[uint64]place{},
		visible: place{index: -1},
	}
	t.Cleanup(func() { require.NoError(t, w.store.Close()) })
	w.calm = job.New(w.store)
	require.NoError(t, w.calm.Create(t.Context(), id, json.RawMessage(`{}`)))
	for i := range 3 {
		w.players = append(w.players, &player{
			name:    fmt.Sprintf("node-%d", i),
			catalog: job.New(&meddler{Store: w.store, meddle: w.meddle}),
		})
	}
	return w
}

// meddle is called in the middle of what a player does.
func (w *world) meddle() (before, after error) {
	if len(w.busy) == 0 {
		return nil, nil // the end
	}
	if w.rng.IntN(12) == 0 && len(w.busy) < len(w.players) {
		for _, i := range w.rng.Perm(len(w.players)) {
			if p := w.players[i]; !w.isBusy(p) {
				w.act(p)
				break
			}
		}
	}
	fail := fault.New("test", fault.Unavailable, "the store is away")
	switch w.rng.IntN(60) {
	case 0:
		return fail, nil
	case 1:
		return nil, fail
	}
	return nil, nil
}

func (w *world) isBusy(p *player) bool {
	for _, b := range w.busy {
		if b == p {
			return true
		}
	}
	return false
}

// act lets a player do something.
func (w *world) act(p *player) {
	w.busy = append(w.busy, p)
	defer func() { w.busy = w.busy[:len(w.busy)-1] }()
	switch n := w.rng.IntN(10); {
	case n < 2 || p.claim == nil:
		w.claim(p)
	case n < 3:
		require.NoError(w.t, p.claim.Release())
		p.claim = nil
	case n < 4:
		if old := w.isOld(p); p.claim.Beat(w.t.Context()) == nil {
			require.False(w.t, old, "%s beats under %d, which is over", p.name, p.claim.Incarnation())
		}
	default:
		w.save(p)
	}
}

// isOld reports whether there is a higher claim than the player's.
func (w *world) isOld(p *player) bool {
	seen, err := w.calm.Look(w.t.Context(), id)
	require.NoError(w.t, err)
	return seen.Incarnation > p.claim.Incarnation()
}

func (w *world) claim(p *player) {
	ctx := w.t.Context()
	stale := job.Sighting{}
	if w.rng.IntN(2) == 0 { // it has watched for long enough
		stale, _ = p.catalog.Look(ctx, id)
	}
	claim, seen, err := p.catalog.Claim(ctx, id, job.Owner{Node: p.name, Boot: p.name, PID: 1}, stale)
	if err != nil {
		require.Contains(w.t, []fault.Kind{fault.Conflict, fault.Unavailable}, fault.KindOf(err), "%v", err)
		return
	}
	require.Nil(w.t, w.owners[claim.Incarnation()], "incarnation %d has two owners", claim.Incarnation())
	require.Equal(w.t, claim.Incarnation(), seen.Incarnation)
	w.owners[claim.Incarnation()] = p
	p.claim, p.saves, p.start = claim, 0, nil
	if p.start, err = p.catalog.Load(ctx, id); err == nil {
		w.starts[claim.Incarnation()] = w.place(p.start)
	} else if fault.KindOf(err) != fault.Unavailable {
		require.True(w.t, w.isOld(p), "%v", err)
	}
}

func (w *world) save(p *player) {
	ctx, n := w.t.Context(), p.claim.Incarnation()
	old := w.isOld(p)
	w.version++
	v, index := w.version, len(w.tried[n])
	w.tried[n] = append(w.tried[n], v)
	p.saves++
	if p.saves == 1 || w.rng.IntN(3) > 0 {
		p.model = v // otherwise the same model again, as at the end of an epoch
	}
	if err := p.claim.Save(ctx, doc(v), []job.Source{model(p.model), source("optimizer-0-1.safetensors", "momentum")}); err != nil {
		require.Contains(w.t, []fault.Kind{fault.Conflict, fault.Unavailable}, fault.KindOf(err), "%v", err)
		return
	}
	require.False(w.t, old, "%s saves under %d, which is over", p.name, n)
	w.saved[n] = index
	for m, start := range w.starts {
		require.False(w.t, m > n && start.isBefore(place{n, index}), "owner %d started from %v, what %d was promised is lost: %v", m, start, n, place{n, index})
	}
}

// check checks what anybody sees.
func (w *world) check() {
	state, err := w.calm.Load(w.t.Context(), id)
	require.NoError(w.t, err)
	top := uint64(0) // highest incarnation with a promised state
	for n := range w.saved {
		top = max(top, n)
	}
	if top > 0 {
		require.NotNil(w.t, state)
	}
	require.False(w.t, w.place(state).isBefore(w.visible), "first %v was there, now %v", w.visible, w.place(state))
	w.visible = w.place(state)
	if state == nil {
		return
	}
	require.GreaterOrEqual(w.t, state.Incarnation, top)
	require.Contains(w.t, w.tried[state.Incarnation][w.saved[state.Incarnation]:], version(state), "incarnation %d", state.Incarnation)
	w.readable(state)
	for _, p := range w.players { // what the owner started from is there until it has two states of its own
		if p.claim != nil && p.start != nil && p.saves < 2 && !w.isOld(p) {
			w.readable(p.start)
		}
	}
}

func (w *world) readable(state *job.State) {
	for _, f := range state.Files {
		got := readAll(w.t, w.calm, id, state, f.Name)
		if v := 0; f.Name != "optimizer-0-1.safetensors" {
			_, err := fmt.Sscanf(f.Name, "model-%d.safetensors", &v)
			require.NoError(w.t, err)
			require.Equal(w.t, content(v), got)
		}
	}
}

// Whatever owners do in the middle of each other's steps, and wherever the
// store fails: an incarnation has one owner, an old one is told, what is seen
// is the last that was promised under the highest number or newer, and who
// takes over finds what it needs.
func TestOwnersInTheMiddleOfEachOther(t *testing.T) {
	for seed := range testkit.Seeds(t, 200) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			w := newWorld(t, seed)
			for range 60 {
				w.act(w.players[w.rng.IntN(len(w.players))])
				w.check()
			}
			seen, err := w.calm.Look(t.Context(), id)
			require.NoError(t, err)
			claim, _, err := w.calm.Claim(t.Context(), id, me, seen)
			require.NoError(t, err)
			for v := 1001; v <= 1003; v++ {
				require.NoError(t, save(t.Context(), claim, v))
			}
			state, err := w.calm.Load(t.Context(), id)
			require.NoError(t, err)
			require.Equal(t, 1003, version(state))
			n := claim.Incarnation()
			left := []string{}
			for _, k := range keys(t, w.store, id) {
				if !strings.HasSuffix(k, "/claim") {
					left = append(left, k)
				}
			}
			require.Equal(t, []string{
				fmt.Sprintf("%d/model-1002.safetensors", n), fmt.Sprintf("%d/model-1003.safetensors", n),
				fmt.Sprintf("%d/optimizer-0-1.safetensors", n), fmt.Sprintf("%d/previous.json", n), fmt.Sprintf("%d/state.json", n),
			}, left)
			require.NoError(t, claim.Release())
		})
	}
}
