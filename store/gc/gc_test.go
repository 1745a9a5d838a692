package gc_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/store"
	"github.com/troupe-ml/troupe/store/dataset"
	"github.com/troupe-ml/troupe/store/function"
	"github.com/troupe-ml/troupe/store/gc"
	"github.com/troupe-ml/troupe/store/job"
	"github.com/troupe-ml/troupe/store/model"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const month = 30 * 24 * time.Hour

var me = job.Owner{Node: "me", Boot: "boot", PID: 1}

// place is a store with its catalogs.
type place struct {
	t         *testing.T
	store     store.Store
	jobs      *job.Catalog
	functions *function.Catalog
	datasets  *dataset.Catalog
	deps      gc.Deps
}

// stores runs a test with each kind of store.
func stores(t *testing.T, test func(t *testing.T, p *place)) {
	for name, open := range map[string]func() (store.Store, error){
		"file": func() (store.Store, error) { return store.NewFile(t.TempDir()) },
		"mem":  func() (store.Store, error) { return store.NewMem(), nil },
	} {
		t.Run(name, func(t *testing.T) {
			s, err := open()
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, s.Close()) })
			test(t, newPlace(t, s))
		})
	}
}

func newPlace(t *testing.T, s store.Store) *place {
	p := &place{t: t, store: s, jobs: job.New(s), functions: function.New(s), datasets: dataset.New(s)}
	p.deps = gc.Deps{Store: s, Jobs: p.jobs, Owner: job.Owner{Node: "collector"}, Read: gc.Reader{
		Uses: func(doc json.RawMessage) (uses gc.Uses, err error) { return uses, json.Unmarshal(doc, &uses) },
		Ended: func(doc json.RawMessage) (bool, error) {
			var state struct{ Ended *bool }
			if err := json.Unmarshal(doc, &state); err != nil || state.Ended == nil {
				return false, errors.New("neither ended nor not")
			}
			return *state.Ended, nil
		},
	}}
	return p
}

// after is that long from now: stores take the time of an object from the
// clock of the machine.
func after(age time.Duration) gc.Options {
	return gc.Options{Now: time.Now().Add(age), Older: month}
}

func (p *place) put(key, text string) {
	p.t.Helper()
	require.NoError(p.t, p.store.Put(p.t.Context(), key, write(text)))
}

func write(text string) func(io.Writer) error {
	return func(w io.Writer) error {
		_, err := io.WriteString(w, text)
		return err
	}
}

func (p *place) keys() []string {
	p.t.Helper()
	keys := []string{}
	for o, err := range p.store.List(p.t.Context(), "") {
		require.NoError(p.t, err)
		keys = append(keys, o.Key)
	}
	return keys
}

// job makes one that uses these versions.
func (p *place) job(id, function, dataset string) {
	p.t.Helper()
	require.NoError(p.t, p.jobs.Create(p.t.Context(), id, json.RawMessage(fmt.Sprintf(`{"Function":%q,"Dataset":%q}`, function, dataset))))
}

func (p *place) claim(id string) *job.Claim {
	p.t.Helper()
	c, _, err := p.jobs.Claim(p.t.Context(), id, me, job.Sighting{})
	require.NoError(p.t, err)
	return c
}

func (p *place) save(c *job.Claim, version int, doc string) {
	p.t.Helper()
	require.NoError(p.t, c.Save(p.t.Context(), json.RawMessage(doc), []job.Source{{
		Name: fmt.Sprintf("model-%d.safetensors", version), Bytes: 7, Write: write("weights"),
	}}))
}

// ended makes a job that has ended and could be resumed.
func (p *place) ended(id string) {
	p.t.Helper()
	p.job(id, "", "")
	c := p.claim(id)
	p.save(c, 1, `{"ended":false}`)
	p.save(c, 2, `{"ended":true}`)
	require.NoError(p.t, c.Release())
}

// imports makes versions of a function and a data set, and returns what names
// them.
func (p *place) imports(contents ...string) (versions, digests []string) {
	p.t.Helper()
	dir := p.t.TempDir()
	for _, content := range contents {
		program, table := filepath.Join(dir, "prog.py"), filepath.Join(dir, "table.csv")
		require.NoError(p.t, os.WriteFile(program, []byte("# "+content), 0o600))
		require.NoError(p.t, os.WriteFile(table, fmt.Appendf(nil, "a,b\n%s,1\n2,0\n3,1\n", content), 0o600))
		f, err := p.functions.ImportAs(p.t.Context(), "prog", function.Source{Path: program})
		require.NoError(p.t, err)
		d, err := p.datasets.Open(p.t.Context(), table, dataset.Options{})
		require.NoError(p.t, err)
		versions, digests = append(versions, f.Version), append(digests, d.Digest)
	}
	return versions, digests
}

func (p *place) find(opts gc.Options) gc.Report {
	p.t.Helper()
	before := p.keys()
	report, err := gc.Find(p.t.Context(), p.deps, opts)
	require.NoError(p.t, err)
	require.Equal(p.t, before, p.keys(), "finding removes nothing")
	return report
}

// collect collects, and requires that what was found is what goes.
func (p *place) collect(opts gc.Options) gc.Report {
	p.t.Helper()
	found, before := p.find(opts), p.keys()
	done, err := gc.Collect(p.t.Context(), p.deps, opts)
	require.NoError(p.t, err)
	require.Equal(p.t, lines(found), lines(done))
	require.Equal(p.t, found.Bytes, done.Bytes)
	left := slices.DeleteFunc(before, func(k string) bool {
		return slices.ContainsFunc(done.Items, func(i gc.Item) bool { return i.Key == k })
	})
	now := slices.DeleteFunc(p.keys(), func(k string) bool { return !slices.Contains(before, k) && isClaim(k) })
	require.Equal(p.t, left, now)
	require.Empty(p.t, p.find(opts).Items, "there is no more")
	return done
}

func isClaim(key string) bool {
	name := filepath.Base(key)
	return name == "claim" || name == "beat" || strings.HasPrefix(name, "lock-")
}

// lines are the items of a report, without what locks are called.
func lines(r gc.Report) []string {
	lines := []string{}
	for _, i := range r.Items {
		key, _, _ := strings.Cut(i.Key, "/lock-")
		lines = append(lines, fmt.Sprintf("%s %d %s", key, i.Bytes, i.Reason))
	}
	return lines
}

func requireKind(t *testing.T, want fault.Kind, err error) {
	t.Helper()
	require.Error(t, err)
	require.Equal(t, want.String(), fault.KindOf(err).String(), "%v", err)
}

func TestAnEmptyStoreHasNoGarbage(t *testing.T) {
	stores(t, func(t *testing.T, p *place) {
		require.Empty(t, p.collect(after(month)).Items)
		_, err := gc.Find(t.Context(), p.deps, gc.Options{Older: month})
		requireKind(t, fault.Invalid, err)
		_, err = gc.Collect(t.Context(), p.deps, gc.Options{Now: time.Now(), Older: -1})
		requireKind(t, fault.Invalid, err)
	})
}

// All of a job whose task is gone goes, but not while it may be in the making.
func TestHalfDeletedJobsGo(t *testing.T) {
	stores(t, func(t *testing.T, p *place) {
		p.ended("a")
		p.ended("ab")
		require.NoError(t, p.jobs.PutEvents(t.Context(), "a", 1, 0, []byte("{}\n")))
		require.NoError(t, p.store.Delete(t.Context(), "jobs/a/task.json"))
		require.Empty(t, p.find(after(gc.Grace-time.Hour)).Items)
		done := p.collect(after(gc.Grace + time.Hour))
		require.GreaterOrEqual(t, len(done.Items), 6)
		for _, i := range done.Items {
			require.True(t, strings.HasPrefix(i.Key, "jobs/a/"), i.Key)
			require.Equal(t, gc.HalfDeleted, i.Reason)
		}
		p.job("a", "", "") // nothing of it is left
	})
}

// A job that ended long ago loses its tensors, and nothing else.
func TestTensorsOfEndedJobsGo(t *testing.T) {
	stores(t, func(t *testing.T, p *place) {
		p.ended("old")
		p.job("queued", "", "")
		p.job("runs", "", "")
		runs := p.claim("runs")
		p.save(runs, 1, `{"ended":false}`)
		require.Empty(t, p.find(after(month-time.Hour)).Items)
		done := p.collect(after(month + time.Hour))
		require.Equal(t, []string{
			"jobs/old/incarnations/1/model-1.safetensors 7 " + string(gc.Ended),
			"jobs/old/incarnations/1/model-2.safetensors 7 " + string(gc.Ended),
		}, lines(done))
		require.EqualValues(t, 14, done.Bytes)
		state, err := p.jobs.Peek(t.Context(), "old")
		require.NoError(t, err)
		require.JSONEq(t, `{"ended":true}`, string(state.Doc))
		_, err = p.jobs.Load(t.Context(), "old")
		requireKind(t, fault.Corrupt, err)
		require.ErrorContains(t, err, "start the job anew")
		again := p.claim("old")
		require.EqualValues(t, 3, again.Incarnation(), "the collector has let go of it")
		require.NoError(t, again.Release())
		require.NoError(t, runs.Beat(t.Context()), "the one that runs was let alone")
		require.NoError(t, runs.Release())
	})
}

// An ended job that somebody is about to resume, or has begun to, keeps all.
func TestAJobThatIsResumedKeepsItsTensors(t *testing.T) {
	stores(t, func(t *testing.T, p *place) {
		p.ended("a")
		c := p.claim("a")
		opts := after(2 * month)
		require.Len(t, p.find(opts).Items, 2)
		done, err := gc.Collect(t.Context(), p.deps, opts)
		require.NoError(t, err)
		require.Empty(t, done.Items)
		state, err := p.jobs.Load(t.Context(), "a")
		require.NoError(t, err)
		require.NotNil(t, state)
		p.save(c, 2, `{"ended":false}`)
		p.save(c, 3, `{"ended":false}`)
		require.Empty(t, p.find(opts).Items)
		require.NoError(t, c.Release())
	})
}

// What an old owner wrote after its successor had pruned goes; what a job could
// still go back to does not.
func TestLeftoversOfLowerIncarnationsGo(t *testing.T) {
	stores(t, func(t *testing.T, p *place) {
		p.job("a", "", "")
		c := p.claim("a")
		p.save(c, 1, `{"ended":false}`)
		require.NoError(t, c.Release())
		c = p.claim("a")
		p.save(c, 1, `{"ended":false}`)
		require.Empty(t, p.find(after(2*month)).Items, "the way back")
		p.save(c, 2, `{"ended":false}`)
		p.put("jobs/a/incarnations/1/model-9.safetensors", "late")
		p.put("jobs/a/incarnations/1/state.json", "late, too")
		p.put("jobs/a/incarnations/1/beat", "7")
		p.put("jobs/a/incarnations/1/events-0.jsonl", "{}\n")
		require.Empty(t, p.find(after(gc.Grace-time.Hour)).Items)
		require.Equal(t, []string{
			"jobs/a/incarnations/1/state.json 9 " + string(gc.Lower),
			"jobs/a/incarnations/1/beat 1 " + string(gc.Lower),
			"jobs/a/incarnations/1/model-9.safetensors 4 " + string(gc.Lower),
		}, lines(p.collect(after(2*month))))
		require.NoError(t, c.Beat(t.Context()))
		require.NoError(t, c.Release())
	})
}

// A version goes if nothing names it, it is not the latest, and it is old.
func TestUnusedVersionsGo(t *testing.T) {
	stores(t, func(t *testing.T, p *place) {
		versions, digests := p.imports("1", "2", "3", "4")
		p.job("a", versions[1], digests[1])
		_, err := model.New(p.store).Save(t.Context(), "gone", 1, model.Card{FunctionVersion: versions[2], DatasetDigest: digests[2]}, write("weights"))
		require.NoError(t, err)
		require.Empty(t, p.find(after(month-time.Hour)).Items)
		done := p.collect(after(month + time.Hour))
		require.Len(t, done.Items, 2+5)
		for _, i := range done.Items {
			require.True(t, strings.Contains(i.Key, versions[0]) || strings.Contains(i.Key, digests[0]), i.Key)
		}
		require.Equal(t, "functions/prog/"+versions[0]+"/manifest.json", done.Items[0].Key, "manifests go first")
		require.Equal(t, "datasets/table/"+digests[0]+"/manifest.json", done.Items[2].Key)

		require.NoError(t, p.jobs.Delete(t.Context(), "a"))
		opts := after(0)
		opts.Older = 0
		require.Empty(t, p.find(opts).Items, "an importer's job may be on its way")
		require.Len(t, p.collect(after(month+time.Hour)).Items, 7)
		again, digestsAgain := p.imports("1", "2") // as if they had never been there
		require.Equal(t, versions[:2], again)
		require.Equal(t, digests[:2], digestsAgain)
	})
}

// What is imported again is the latest, and young.
func TestWhatIsImportedAgainStays(t *testing.T) {
	stores(t, func(t *testing.T, p *place) {
		versions, digests := p.imports("1", "2")
		found := p.find(after(2 * month))
		require.Len(t, found.Items, 7)
		p.imports("1")
		f, err := p.functions.Show(t.Context(), "prog")
		require.NoError(t, err)
		require.Equal(t, versions[0], f.Version)
		d, err := p.datasets.Open(t.Context(), "table", dataset.Options{})
		require.NoError(t, err)
		require.Equal(t, digests[0], d.Digest)
		for _, i := range p.collect(after(2 * month)).Items {
			require.True(t, strings.Contains(i.Key, versions[1]) || strings.Contains(i.Key, digests[1]), i.Key)
		}
	})
}

// An import that died leaves files without a manifest.
func TestUnfinishedImportsGo(t *testing.T) {
	stores(t, func(t *testing.T, p *place) {
		p.imports("1")
		p.put("functions/prog/0000/code/main.py", "half")
		p.put("datasets/big/1111/train-x.npy", "half")
		p.put("probes/01x", "?")
		require.Empty(t, p.find(after(gc.Grace-time.Hour)).Items)
		require.Equal(t, []string{
			"functions/prog/0000/code/main.py 4 " + string(gc.Unfinished),
			"datasets/big/1111/train-x.npy 4 " + string(gc.Unfinished),
			"probes/01x 1 " + string(gc.Probe),
		}, lines(p.collect(after(gc.Grace+time.Hour))))
	})
}

func TestSubmissionsOfGoneJobsGo(t *testing.T) {
	stores(t, func(t *testing.T, p *place) {
		for _, id := range []string{"a", "b"} {
			p.job(id, "", "")
			_, _, err := p.jobs.Submission(t.Context(), "key of "+id, id)
			require.NoError(t, err)
		}
		p.put("submissions/damaged", "")
		require.NoError(t, p.jobs.Delete(t.Context(), "a"))
		require.Empty(t, p.find(after(month-time.Hour)).Items)
		done := p.collect(after(month + time.Hour))
		require.Len(t, done.Items, 2)
		winner, first, err := p.jobs.Submission(t.Context(), "key of a", "c")
		require.NoError(t, err)
		require.True(t, first)
		require.Equal(t, "c", winner)
		winner, _, err = p.jobs.Submission(t.Context(), "key of b", "c")
		require.NoError(t, err)
		require.Equal(t, "b", winner)
	})
}

// What cannot be read keeps what it might need, and is said.
func TestWhatIsDamagedKeepsThings(t *testing.T) {
	for name, damage := range map[string]func(p *place){
		"a task":         func(p *place) { p.put("jobs/a/task.json", "{") },
		"what it says":   func(p *place) { p.put("jobs/a/task.json", `"no task"`) },
		"a card":         func(p *place) { p.put("models/a.1.json", "{") },
		"the latest one": func(p *place) { p.spoilLatest() },
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlace(t, store.NewMem())
			p.imports("1", "2")
			p.job("a", "", "")
			require.Len(t, p.find(after(2*month)).Items, 7)
			damage(p)
			report := p.collect(after(2 * month))
			require.Empty(t, report.Items)
			require.NotEmpty(t, report.Warnings)
		})
	}
	p := newPlace(t, store.NewMem())
	p.job("a", "", "")
	c := p.claim("a")
	p.save(c, 1, `{}`)
	require.Contains(t, p.collect(after(2 * month)).Warnings[0], "job a: its state is damaged")
	p.put("jobs/a/incarnations/1/state.json", "{")
	require.Contains(t, p.collect(after(2 * month)).Warnings[0], "no state of job a is whole")
	require.NoError(t, c.Release())
}

func (p *place) spoilLatest() {
	f, err := p.functions.Show(p.t.Context(), "prog")
	require.NoError(p.t, err)
	d, err := p.datasets.Open(p.t.Context(), "table", dataset.Options{})
	require.NoError(p.t, err)
	p.put("functions/prog/"+f.Version+"/manifest.json", "{")
	p.put("datasets/table/"+d.Digest+"/manifest.json", "{")
}
